"""Groups cut along the merge tree."""

import numpy as np
import pytest

from spice.errors import UserError
from spice.stages.groups.along_tree import tree_parts
from spice.stages.groups.merge_tree import MergeTree

# Leaves 0 and 1 are merged first (node 4), then 2 joins them (5), and 3 at last (6); ten images in each leaf.
LEAF = np.repeat(np.arange(4), 10).astype(np.int32)
TREE = MergeTree(LEAF, np.array([[0, 1], [4, 2], [5, 3]], np.int32), np.array([0.1, 0.2, 0.3]))


def test_a_group_is_cut_where_the_tree_cuts_it() -> None:
    group = np.flatnonzero(LEAF < 3)
    assert [sorted(set(LEAF[rows])) for rows in tree_parts(TREE, group, into=2)] == [[0, 1], [2]]
    assert [len(rows) for rows in tree_parts(TREE, group, into=3)] == [10, 10, 10]
    inside = np.flatnonzero(LEAF < 2)  # together in every cut but the finest
    assert [sorted(set(LEAF[rows])) for rows in tree_parts(TREE, inside, into=2)] == [[0], [1]]


def test_stray_images_are_no_part() -> None:
    group = np.concatenate([np.flatnonzero(LEAF < 3), [39]])  # one of the last leaf, 1 of 31
    parts = tree_parts(TREE, group, into=2)
    assert [len(rows) for rows in parts] == [21, 10]
    assert 39 in parts[0]
    assert sorted(np.concatenate(parts)) == sorted(group)


def test_a_group_that_the_tree_does_not_cut_is_refused() -> None:
    with pytest.raises(UserError, match="cannot split this group of 10 images into 2 parts"):
        tree_parts(TREE, np.flatnonzero(LEAF == 3), into=2)
