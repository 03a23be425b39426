"""Evidence from neighbors about groups."""

import numpy as np
import pytest

from spice.trust.evidence import groups_among_neighbors, similar_groups, two_parts
from spice.trust.grade import Grade, grades


def test_the_number_of_groups_is_that_of_equally_frequent_ones() -> None:
    votes = np.array([[1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25], [0.0, 0.0, 0.1, 0.9]])
    expected = [1, 2, 4, np.exp(-0.1 * np.log(0.1) - 0.9 * np.log(0.9))]
    np.testing.assert_allclose(groups_among_neighbors(votes), expected)


def test_groups_are_similar_if_each_has_neighbors_in_the_other() -> None:
    votes = np.array([[0.6, 0.4, 0.0], [0.2, 0.5, 0.3], [0.0, 0.3, 0.7]])
    assert similar_groups(votes, 0.15) == [(1, 2, 0.3), (0, 1, 0.2)]
    assert similar_groups(votes, 0.25) == [(1, 2, 0.3)]


def test_a_group_of_one_image_or_none_is_weak() -> None:
    neighbors = np.array([[(row + step) % 7 for step in range(1, 6)] for row in range(7)])
    cluster = np.array([0, 0, 0, 0, 0, 0, 1], dtype=np.int32)
    assert grades(cluster, neighbors, 3) == [Grade.MIXED, Grade.WEAK, Grade.WEAK]


def rings(sizes: list[int]) -> np.ndarray:
    """Rings of images. The neighbors of each image are the next twenty of its ring."""
    starts = np.cumsum([0, *sizes])
    return np.vstack(
        [
            start + (np.arange(size)[:, None] + np.arange(1, 21)) % size
            for start, size in zip(starts, sizes, strict=False)
        ]
    )


def test_two_rings_are_two_parts_without_a_link() -> None:
    found = two_parts(np.arange(100), rings([60, 40]))
    assert found is not None
    assert sorted(found.sizes) == [40, 60]
    assert found.links == pytest.approx(0)


def test_the_weakest_cut_of_a_ring_has_two_ends() -> None:
    found = two_parts(np.arange(200), rings([200]))
    assert found is not None
    # Half of a ring has 100 images with 30 links each. 1 + 2 + ... + 15 links lead across each of its two ends.
    assert found.links == pytest.approx(2 * 120 / 3000, abs=0.02)
    assert min(found.sizes) >= 40


def test_images_outside_the_group_do_not_count() -> None:
    neighbors = rings([60, 40, 50])
    neighbors[:100, 5] = 120  # an image of the third ring
    found = two_parts(np.arange(100), neighbors)
    assert found is not None
    assert found.links == pytest.approx(0)
    assert two_parts(np.arange(19), neighbors) is None
