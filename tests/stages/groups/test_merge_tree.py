"""Groups within groups: the losses of merges, compared with the information itself, and cuts."""

import math
import time

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.stages.groups.test_curve import blobs

from spice.errors import UserError
from spice.stages.groups.merge_tree import MergeTree, losses, merge_all, merge_tree


def made_joint(groups: int, *, seed: int = 0) -> NDArray[np.float64]:
    random = np.random.default_rng(seed)
    joint = random.random((groups, groups)) * (random.random((groups, groups)) > 0.4) + np.eye(groups)
    return np.asarray((joint + joint.T) / (2 * joint.sum()))


def information(joint: NDArray[np.float64]) -> float:
    mass = joint.sum(axis=1)
    places = [(a, b) for a in range(len(joint)) for b in range(len(joint)) if joint[a, b] > 0]
    return float(sum(joint[a, b] * math.log(joint[a, b] / (mass[a] * mass[b])) for a, b in places))


def merged(joint: NDArray[np.float64], one: int, other: int) -> NDArray[np.float64]:
    joint = joint.copy()
    joint[one] += joint[other]
    joint[:, one] += joint[:, other]
    return np.delete(np.delete(joint, other, axis=0), other, axis=1)


def test_the_loss_of_a_merge_is_the_information_before_less_that_after() -> None:
    joint = made_joint(7)
    found = losses(joint)
    for one in range(7):
        assert found[one, one] == math.inf
        for other in range(7):
            if one != other:
                low, high = sorted((one, other))
                expected = information(joint) - information(merged(joint, low, high))
                assert found[one, other] == pytest.approx(expected, abs=1e-12)


def test_each_merge_is_the_one_with_the_smallest_recomputed_loss() -> None:
    joint = made_joint(9, seed=3)
    merges, lost = merge_all(joint)
    nodes = list(range(9))
    for number, (pair, loss) in enumerate(zip(merges.tolist(), lost, strict=True)):
        assert loss == pytest.approx(max(losses(joint).min(), 0.0), abs=1e-12)
        one, other = sorted((nodes.index(pair[0]), nodes.index(pair[1])))
        joint = merged(joint, one, other)
        nodes[one] = 9 + number
        del nodes[other]
    assert lost.sum() == pytest.approx(information(made_joint(9, seed=3)))


def test_a_cut_undoes_the_last_merges() -> None:
    tree = MergeTree(np.array([0, 1, 2, 3, 3], "i4"), np.array([[1, 3], [0, 4], [2, 5]], "i4"), np.zeros(3))
    assert tree.cut(4).tolist() == [0, 1, 2, 3, 3]
    assert tree.cut(3).tolist() == [0, 1, 2, 1, 1]
    assert tree.cut(2).tolist() == [0, 0, 1, 0, 0]
    assert tree.cut(1).tolist() == [0, 0, 0, 0, 0]
    with pytest.raises(ValueError, match="has 1 to 4 groups, got 5"):
        tree.cut(5)


def test_cuts_of_a_real_tree_are_nested_and_find_the_groups() -> None:
    points = blobs([30] * 5)
    distance = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    tree = merge_tree(points, distance.argsort(axis=1)[:, 1:11], seed=0)
    five = tree.cut(5)
    assert [len(set(part)) for part in np.split(five, 5)] == [1] * 5
    assert len(set(five.tolist())) == 5
    for coarse, fine in ((2, 3), (3, 5), (5, 12)):
        pairs = set(zip(tree.cut(coarse).tolist(), tree.cut(fine).tolist(), strict=True))
        assert len(pairs) == fine  # every fine group lies in one coarse group


def test_three_hundred_groups_are_merged_in_seconds() -> None:
    joint = made_joint(300)
    started = time.process_time()
    merge_all(joint)
    assert time.process_time() - started < 10  # 1 to 2 on a quiet machine


# Leaves 0 and 1 are merged first (node 4), then leaf 2 joins (5), then leaf 3 (6). Each leaf has ten images.
LEAF = np.repeat(np.arange(4), 10).astype(np.int32)
TREE = MergeTree(LEAF, np.array([[0, 1], [4, 2], [5, 3]], np.int32), np.array([0.1, 0.2, 0.3]))


def test_a_group_is_split_at_a_cut_of_the_tree() -> None:
    group = np.flatnonzero(LEAF < 3)
    assert [sorted(set(LEAF[rows])) for rows in TREE.split(group, into=2)] == [[0, 1], [2]]
    assert [len(rows) for rows in TREE.split(group, into=3)] == [10, 10, 10]
    inside = np.flatnonzero(LEAF < 2)  # together in all cuts but the finest
    assert [sorted(set(LEAF[rows])) for rows in TREE.split(inside, into=2)] == [[0], [1]]


def test_stray_images_are_not_a_part() -> None:
    group = np.concatenate([np.flatnonzero(LEAF < 3), [39]])  # one of the last leaf, 1 of 31
    parts = TREE.split(group, into=2)
    assert [len(rows) for rows in parts] == [21, 10]
    assert 39 in parts[0]
    assert sorted(np.concatenate(parts)) == sorted(group)


def test_a_group_that_no_cut_splits_is_refused() -> None:
    with pytest.raises(UserError, match="cannot split this group of 10 images into 2 parts"):
        TREE.split(np.flatnonzero(LEAF == 3), into=2)
