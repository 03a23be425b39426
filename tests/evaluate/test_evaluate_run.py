"""A run against true labels: accuracy of what is kept by reliability, of every head, and before joint training."""

from pathlib import Path

import numpy as np
import pytest
from made_run import add_steps, heads_result, made_labels, make_run
from numpy.typing import NDArray

from spice.evaluate import Truth, accuracy, accuracy_curve, evaluate_run
from spice.runs import Result
from spice.runs.artifacts import HEAD_LABELS, KMEANS
from spice.runs.records import JointResult

Array = NDArray[np.int64]
N, K = 200, 4


@pytest.fixture
def classes() -> Array:
    return np.arange(N) % K


@pytest.fixture
def run(tmp_path: Path, classes: Array) -> Result:
    """Clusters have other numbers than classes; a fifth of the images is wrong, and these are trusted less."""
    wrong = np.arange(N) % 5 == 0
    cluster = ((classes + wrong + 1) % K).astype(np.int32)
    trust = np.where(wrong, 0.5, 1.0).astype(np.float32)
    heads = heads_result([[2.0, 2.0], [2.0, 1.0]], head=1)
    run = make_run(tmp_path / "run", made_labels(cluster, trust), {"heads": heads})
    np.save(run / KMEANS, np.zeros(N, dtype=np.int32))
    rows = np.arange(0, N, 2)
    perfect, useless = (classes[rows] + 2) % K, np.zeros(len(rows))
    predicted = np.stack([[useless, useless], [useless, perfect]]).astype(np.uint8)  # (snapshots, heads, n)
    np.savez_compressed(run / HEAD_LABELS, rows=rows, labels=predicted)
    return run


def whole(classes: Array) -> Truth:
    return Truth(np.arange(N), classes, ("a", "b", "c", "d"))


def test_all_scores_of_a_run(run: Result, classes: Array) -> None:
    found = evaluate_run(run, whole(classes))
    assert (found.images, found.without_label) == (N, 0)
    assert (found.spice.acc, found.spice.images) == (0.8, N)
    assert (found.reliable.acc, found.reliable.images) == (1.0, 160)
    assert found.kmeans.acc == 0.25
    assert np.array(found.confusion.counts).trace() == 160
    assert found.by_chance.share == [0.8, 1.0]  # images of equal trust are kept or left together
    assert found.by_chance.acc == [1.0, 0.8]
    assert found.second_stage is None  # there was no joint training


def test_every_head_is_scored_at_every_snapshot(run: Result, classes: Array) -> None:
    found = evaluate_run(run, whole(classes)).heads
    assert found is not None
    assert found.images == 100
    assert found.acc == [[0.5, 0.5], [0.5, 1.0]]  # the even images have two classes: one cluster for all is half right


def test_images_without_a_true_label_are_left_out_everywhere(run: Result, classes: Array) -> None:
    known = np.arange(0, N, 4)
    found = evaluate_run(run, Truth(known, classes[known], ("a", "unseen")))
    assert (found.images, found.without_label) == (50, 150)
    assert (found.classes, len(found.confusion.counts)) == (["a"], 1)
    assert found.heads is not None
    assert found.heads.images == 50
    odd = np.arange(1, N, 2)  # none of those that heads were compared by
    assert evaluate_run(run, Truth(odd, classes[odd], ("a", "b", "c", "d"))).heads is None


@pytest.mark.parametrize("used", [True, False])
def test_the_second_stage_is_scored_where_the_labels_come_from_joint_training(
    run: Result, classes: Array, used: bool
) -> None:
    joint = JointResult(
        labeled=160, given=0, moved=3, loss=[1.0], taught=[0.5], before=None, after=None,
        failed_checks=[], used=used,
    )  # fmt: skip
    found = evaluate_run(add_steps(run.run, {"joint": joint}), whole(classes)).second_stage
    assert (found is not None) == used
    if found is not None:
        assert (found.acc, found.images) == (1.0, 100)  # the selected head, at the epoch it was selected at


def test_a_run_without_the_labels_of_its_heads_is_scored_without_them(run: Result, classes: Array) -> None:
    (run / HEAD_LABELS).unlink()
    assert evaluate_run(run, whole(classes)).heads is None


def test_what_is_kept_is_counted_by_hand() -> None:
    trust = np.array([0.9, 0.5, 0.9, 0.7, 0.1], dtype=np.float32)
    right = np.array([True, False, True, False, True])
    found = accuracy_curve(trust, right)
    assert found.share == [0.4, 0.6, 0.8, 1.0]
    assert found.acc == [1.0, 0.6667, 0.5, 0.6]


def test_of_many_thresholds_a_hundred_are_kept_and_the_last_is_all_images() -> None:
    random = np.random.default_rng(0)
    trust, right = random.random(5000).astype(np.float32), random.random(5000) < 0.7
    found = accuracy_curve(trust, right)
    assert len(found.share) == 100
    assert found.share[0] >= 0.01  # fewer images say nothing
    assert (found.share[-1], found.acc[-1]) == (1.0, round(float(right.mean()), 4))
    assert found.share == sorted(found.share)
    place = 40
    cut = np.sort(trust)[::-1][round(found.share[place] * 5000) - 1]
    assert found.acc[place] == pytest.approx(right[trust >= cut].mean(), abs=1e-4)
    single = accuracy_curve(np.ones(1, dtype=np.float32), np.ones(1, dtype=np.bool_))
    assert (single.share, single.acc) == ([1.0], [1.0])


def test_all_images_kept_have_the_accuracy_of_the_run(run: Result, classes: Array) -> None:
    found = evaluate_run(run, whole(classes))
    assert found.by_confidence.acc[-1] == found.spice.acc == accuracy(run.labels.cluster, classes)
