"""The information curve: its formulas in plain loops, and its value for points without groups."""

import math
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from spice.stages.groups.curve import (
    centers_of,
    gaussian_cloud,
    information_by_count,
    joint_distribution,
    nearest_center,
    nearest_points,
    neighbor_count,
    neighbor_information,
    numbers_to_try,
    partitions,
    scores,
)


def blobs(sizes: list[int], *, width: int = 30, apart: float = 8.0, seed: int = 0) -> NDArray[np.float32]:
    random = np.random.default_rng(seed)
    kind = np.repeat(np.arange(len(sizes)), sizes)
    return (apart * random.normal(size=(len(sizes), width))[kind] + random.normal(size=(len(kind), width))).astype("f4")


def test_information_is_that_of_pairs_counted_in_a_loop() -> None:
    random = np.random.default_rng(0)
    labels, neighbors = random.integers(0, 3, size=20), random.integers(0, 20, size=(20, 4))
    joint = np.zeros((3, 3))
    for image in range(20):
        for neighbor in neighbors[image]:
            joint[labels[image], labels[neighbor]] += 1 / 160
            joint[labels[neighbor], labels[image]] += 1 / 160
    mass = [sum(row) for row in joint]
    expected = sum(
        joint[a, b] * math.log(joint[a, b] / (mass[a] * mass[b])) for a in range(3) for b in range(3) if joint[a, b]
    )
    np.testing.assert_allclose(joint_distribution(labels, neighbors), joint)
    assert neighbor_information(labels, neighbors) == pytest.approx(expected)


def test_groups_that_share_no_neighbors_have_the_maximum_information() -> None:
    labels = np.repeat(np.arange(4), 10)
    inside = np.stack([np.roll(np.arange(40).reshape(4, 10), step, axis=1).ravel() for step in (1, 2)], axis=1)
    assert neighbor_information(labels, inside) == pytest.approx(math.log(4))
    assert neighbor_information(np.roll(labels, 3), inside) < math.log(4) - 0.1


def test_the_nearest_points_have_the_smallest_distances() -> None:
    points = blobs([15, 15])
    distance = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    np.fill_diagonal(distance, np.inf)
    expected = distance.argsort(axis=1)[:, :5]
    np.testing.assert_array_equal(nearest_points(points, 5), expected)


def test_centers_are_means_and_every_point_gets_the_nearest() -> None:
    points, labels = blobs([5, 9, 3]), np.repeat([2, 0, 1], [5, 9, 3])
    centers = centers_of(points, labels)
    for group in range(3):
        np.testing.assert_allclose(centers[group], points[labels == group].mean(axis=0), rtol=1e-5)
    distance = ((points[:, None] - centers[None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(nearest_center(points, centers), distance.argmin(axis=1))


def test_partitions_find_groups_of_any_size() -> None:
    sizes = [60, 12, 30]
    (found,) = partitions(blobs(sizes), [3])
    assert [len(set(part)) for part in np.split(found, np.cumsum(sizes)[:-1])] == [1, 1, 1]
    assert len(set(found.tolist())) == 3


def test_a_gaussian_cloud_has_the_variances_of_the_points_and_no_groups() -> None:
    points = blobs([200, 200]) * np.linspace(1, 6, 30, dtype="f4")
    cloud = gaussian_cloud(points, np.random.default_rng(0))
    np.testing.assert_allclose(cloud.std(axis=0), points.std(axis=0), rtol=0.1)
    assert information_by_count(cloud, [2])[0] < 0.8 * information_by_count(points, [2])[0]


def test_the_score_is_the_information_beyond_that_of_a_gaussian_cloud_divided_by_its_maximum() -> None:
    information, cloud = np.array([[0.6, 1.0], [0.4, 1.2]]), np.array([[0.2, 0.4], [0.4, 0.2]])
    found = scores(information, cloud, [2, 8])
    np.testing.assert_allclose(found[:, 0], [0.3 / math.log(2), 0.1 / math.log(2)])
    np.testing.assert_allclose(found[:, 1], [0.7 / math.log(8), 0.9 / math.log(8)])


def test_numbers_are_tried_one_by_one_and_then_in_steps_of_a_few_percent() -> None:
    numbers = numbers_to_try(2, 100)
    assert numbers[:20] == list(range(2, 22))
    assert numbers[-1] <= 100
    assert all(after / before < 1.1 for before, after in pairwise(numbers[18:]))
    assert numbers_to_try(5, 7) == [5, 6, 7]


def test_small_collections_use_fewer_neighbors() -> None:
    assert [neighbor_count(images) for images in (40, 300, 500, 1000, 5000)] == [5, 6, 10, 20, 20]
