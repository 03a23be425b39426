"""Scores against scikit-learn's, against brute force over all matchings, and against values known by hand."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from spice.evaluate import UNMATCHED, accuracy, confusion, match, matched_labels, score

Labels = NDArray[np.int64]


def brute_force_accuracy(clusters: Labels, truth: Labels) -> float:
    """The best over every one-to-one naming of clusters by classes; names that are no class make nothing right."""
    names = range(max(clusters.max(), truth.max()) + 1)
    return max(float((np.array(naming)[clusters] == truth).mean()) for naming in permutations(names))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 40), st.integers(0, 10_000))
def test_accuracy_is_that_of_the_best_matching(clusters: int, classes: int, images: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    found, truth = random.integers(0, clusters, images), random.integers(0, classes, images)
    assert accuracy(found, truth) == pytest.approx(brute_force_accuracy(found, truth))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 200), st.integers(0, 10_000))
def test_nmi_and_ari_are_those_of_scikit_learn(clusters: int, classes: int, images: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    found, truth = random.integers(0, clusters, images), random.integers(0, classes, images)
    result = score(found, truth)
    assert result.nmi == pytest.approx(normalized_mutual_info_score(truth, found, average_method="geometric"))
    assert result.ari == pytest.approx(adjusted_rand_score(truth, found))


def test_nmi_is_normalized_by_the_geometric_mean_as_in_the_authors_code() -> None:
    # Two even classes (entropy ln 2), each split in two even clusters (entropy 2 ln 2): mutual information ln 2.
    result = score([0, 1, 2, 3], [0, 0, 1, 1])
    assert result.nmi == pytest.approx(1 / np.sqrt(2))
    assert result.acc == 0.5


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 60), st.integers(0, 10_000))
def test_balanced_accuracy_is_the_mean_recall_of_the_matched_classes(
    clusters: int, classes: int, images: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    found, truth = random.integers(0, clusters, images), random.integers(0, classes, images)
    predicted = matched_labels(found, truth)
    recalls = [float((predicted[truth == label] == label).mean()) for label in np.unique(truth)]
    assert score(found, truth).balanced_acc == pytest.approx(sum(recalls) / len(recalls))


def test_balanced_accuracy_counts_a_small_class_as_much_as_a_large_one() -> None:
    result = score([0] * 9 + [1], [0] * 8 + [1, 1])
    assert (result.acc, result.balanced_acc) == (0.9, 0.75)


def test_renaming_clusters_changes_no_score() -> None:
    random = np.random.default_rng(0)
    found, truth = random.integers(0, 7, 300), random.integers(0, 5, 300)
    renamed = np.array([70, 3, -5, 12, 0, 9, 1])[found]
    assert score(renamed, truth) == pytest.approx(score(found, truth))
    assert score(truth + 100, truth) == pytest.approx((1.0, 1.0, 1.0, 1.0))


def test_greed_is_not_enough() -> None:
    # The largest overlap (cluster 0 with class 0: 3) is not part of the best matching (2 + 3).
    found = [0] * 5 + [1] * 3
    truth = [0, 0, 0, 1, 1, 0, 0, 0]
    assert accuracy(found, truth) == pytest.approx(5 / 8)


def test_an_empty_cluster_costs_nothing_by_itself() -> None:
    assert accuracy([0, 0, 2, 2], [0, 0, 1, 1]) == 1.0


def test_more_clusters_than_classes_leave_some_unmatched() -> None:
    found, truth = [0, 0, 0, 1, 1, 2], [4, 4, 4, 4, 4, 7]
    assert accuracy(found, truth) == pytest.approx(4 / 6)
    assert matched_labels(found, truth).tolist() == [4, 4, 4, UNMATCHED, UNMATCHED, 7]
    assert match(np.array([[3, 0], [2, 0], [0, 1]])).tolist() == [0, UNMATCHED, 1]


def test_fewer_clusters_than_classes_leave_classes_without_one() -> None:
    assert accuracy([5, 5, 5, 5], [0, 0, 0, 1]) == 0.75
    assert matched_labels([5, 5, 5, 5], [0, 0, 0, 1]).tolist() == [0, 0, 0, 0]


def test_confusion_has_on_its_diagonal_what_accuracy_counts() -> None:
    random = np.random.default_rng(1)
    truth = random.integers(0, 6, 500)
    found = np.array([3, 5, 1, 0, 2, 4])[np.where(random.random(500) < 0.3, random.integers(0, 6, 500), truth)]
    counts, classes, clusters = confusion(found, truth)
    assert np.trace(counts) / 500 == pytest.approx(accuracy(found, truth))
    assert clusters.tolist() == [3, 5, 1, 0, 2, 4]
    for row, label in enumerate(classes):
        for column, cluster in enumerate(clusters):
            assert counts[row, column] == ((truth == label) & (found == cluster)).sum()


def test_confusion_puts_unmatched_clusters_last() -> None:
    counts, classes, clusters = confusion([0, 1, 1, 2, 2, 2], [9, 9, 9, 4, 4, 4])
    assert (classes.tolist(), clusters.tolist()) == ([4, 9], [2, 1, 0])
    assert counts.tolist() == [[3, 0, 0], [0, 2, 1]]


@pytest.mark.parametrize(
    ("clusters", "truth", "words"),
    [
        ([0, 1], [0], "2 predicted labels cannot be compared with 1 true labels"),
        ([], [], "there is nothing to score"),
        ([[0], [1]], [0, 1], r"clusters must be one number for each image, found shape \(2, 1\)"),
        ([0, 1], [0.0, np.nan], "true labels must be whole numbers, found float64"),
        ([0, 1], ["cat", "dog"], "true labels must be whole numbers, found <U3"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_words(clusters: list[int], truth: list[int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        score(clusters, truth)
