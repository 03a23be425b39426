"""Probes: what is separable is found, what is noise is not, and the test set is never learned from."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from spice.evaluate.probe import Labeled, linear_accuracy, neighbors_accuracy


def digits() -> Labeled:
    data, target = load_digits(return_X_y=True)
    return Labeled(data.astype(np.float32), target)


def noise(images: int = 400) -> Labeled:
    random = np.random.default_rng(0)
    return Labeled(random.normal(size=(images, 20)), random.integers(0, 4, images))


def test_digits_are_linearly_separable_and_their_neighbors_agree() -> None:
    assert linear_accuracy(digits()) > 0.94
    assert neighbors_accuracy(digits()) > 0.97


def test_labels_of_noise_cannot_be_guessed() -> None:
    assert linear_accuracy(noise()) < 0.4
    assert neighbors_accuracy(noise()) < 0.4


def test_a_given_test_set_is_the_one_that_is_scored() -> None:
    features, labels = digits()
    known, asked = Labeled(features[:1000], labels[:1000]), Labeled(features[1000:], labels[1000:])
    assert linear_accuracy(known, asked) > 0.9
    wrong = Labeled(asked.features, (asked.labels + 1) % 10)
    assert linear_accuracy(known, wrong) < 0.1
    assert neighbors_accuracy(known, wrong) < 0.1


def test_the_vote_is_that_of_scikit_learn_where_there_is_no_tie() -> None:
    features, labels = digits()
    known, asked = Labeled(features[:1000], labels[:1000]), Labeled(features[1000:], labels[1000:])
    rival = KNeighborsClassifier(1, metric="cosine").fit(*known).score(*asked)
    assert neighbors_accuracy(known, asked, neighbors=1) == pytest.approx(rival)
    rival = KNeighborsClassifier(5, metric="cosine").fit(*known).score(*asked)
    assert neighbors_accuracy(known, asked) == pytest.approx(rival, abs=0.01)  # ties are settled differently


def test_a_tie_goes_to_the_nearest_and_a_majority_wins() -> None:
    angles = np.deg2rad([0.0, 10, 20, 30, 40])
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    asked = Labeled(circle[:1], np.array([2]))
    assert neighbors_accuracy(Labeled(circle[1:], np.array([2, 0, 0, 2])), asked, neighbors=4) == 1.0
    assert neighbors_accuracy(Labeled(circle[1:], np.array([0, 2, 2, 0])), asked, neighbors=4) == 0.0
    assert neighbors_accuracy(Labeled(circle[1:], np.array([0, 2, 2, 1])), asked, neighbors=4) == 1.0


def test_the_folds_come_from_the_seed() -> None:
    features, labels = digits()
    part = Labeled(features[:300, ::3], labels[:300])
    assert linear_accuracy(part, seed=1) == linear_accuracy(part, seed=1)
    assert len({linear_accuracy(part, seed=seed) for seed in range(4)}) > 1


def test_what_cannot_be_probed_is_refused_in_words() -> None:
    features, labels = noise(20)
    with pytest.raises(ValueError, match=r"features \(20, 20\) and labels \(19,\) do not belong together"):
        linear_accuracy(Labeled(features, labels[1:]))
    with pytest.raises(ValueError, match="labels must be whole numbers from 0, found float64"):
        linear_accuracy(Labeled(features, labels / 2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a class has only 1 images, too few for 5 folds: give a test set"):
        linear_accuracy(Labeled(features, np.arange(20)))
    with pytest.raises(ValueError, match="features hold a NaN or infinite value"):
        neighbors_accuracy(Labeled(features * np.nan, labels))
