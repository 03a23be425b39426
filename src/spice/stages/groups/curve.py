"""The score of each number of groups: mutual information between the groups of neighbors.

For a partition, J_ab is the share of pairs (image, neighbor) with labels a and b. I = sum J ln(J / p p') is the
information that the group of an image gives about the group of its neighbor, at most ln K. Even points without groups
have some, because a cut leaves most neighbors on one side. So the score subtracts I_0, the information in a single
Gaussian cloud with the same variances, clustered in the same way into as many groups:

    S(K) = (I - I_0) / ln K

The curve S(K) rises as long as cuts follow gaps between groups, and falls when they go through groups.

Shapes: n images, D columns, k neighbors, C numbers of groups, R draws, K groups.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float32]
Labels = NDArray[np.int64]
Values = NDArray[np.float64]

# Neighbors of each image; in small collections one per fifty images, but at least five. The same for every number of
# groups: with fewer neighbors for more groups, the end of the curve would rise artificially.
NEIGHBORS, MIN_NEIGHBORS, IMAGES_PER_NEIGHBOR = 20, 5, 50
# Rounds of k-means after Ward's method. More hardly change the partitions.
ROUNDS = 5
# Every number of groups up to ONE_BY_ONE is tried, then steps of 7 %: 40 or 42 groups are the same answer.
ONE_BY_ONE, STEP = 20, 0.07
CHUNK = 1024


def numbers_to_try(least: int, most: int) -> list[int]:
    """Every number of groups at first, then steps of a few percent: 2, 3, ..., 20, 21, 22, 24, ..., 60, 64, ..."""
    found, number = [], least
    while number <= most:
        found.append(number)
        number = number + 1 if number < ONE_BY_ONE else max(number + 1, round(number * (1 + STEP)))
    return found


def scores(information: Values, cloud: Values, counts: Sequence[int]) -> Values:
    """S(K) of every draw, (R, C), from the information in the draws (R, C) and in Gaussian clouds like them (R, C)."""
    return np.asarray((information - cloud.mean(axis=0)) / np.log(counts))


def information_by_count(points: Points, counts: Sequence[int]) -> Values:
    """I of the partition of points (n, D) into each number of groups: (C,)."""
    neighbors = nearest_points(points, neighbor_count(len(points)))
    return np.array([neighbor_information(labels, neighbors) for labels in partitions(points, counts)])


def neighbor_count(images: int) -> int:
    """The number of neighbors of each image in a collection of this size."""
    return int(np.clip(images // IMAGES_PER_NEIGHBOR, MIN_NEIGHBORS, NEIGHBORS))


def partitions(points: Points, counts: Sequence[int]) -> list[Labels]:
    """Partitions of points (n, D) into each number of groups: a cut of Ward's tree, then a few rounds of k-means.

    Ward's method needs no random start, so the curve is smooth. k-means corrects early merges.
    """
    from scipy.cluster.hierarchy import fcluster, linkage  # late: slow to import

    tree = linkage(points, method="ward")
    return [refine_partition(points, fcluster(tree, count, "maxclust") - 1) for count in counts]


def refine_partition(points: Points, labels: Labels) -> Labels:
    """The partition after a few rounds of k-means."""
    for _ in range(ROUNDS):
        moved = nearest_center(points, centers_of(points, labels))
        if np.array_equal(moved, labels):
            break
        labels = moved
    return np.unique(labels, return_inverse=True)[1]


def centers_of(points: Points, labels: Labels) -> Points:
    """The mean point of every group: (K, D)."""
    sizes = np.bincount(labels)
    sums = np.zeros((len(sizes), points.shape[1]), dtype=np.float32)
    order = np.argsort(labels, kind="stable")
    filled = np.flatnonzero(sizes)
    sums[filled] = np.add.reduceat(points[order], np.concatenate([[0], np.cumsum(sizes[filled])[:-1]]), axis=0)
    return np.asarray(sums[filled] / sizes[filled, None], dtype=np.float32)


def nearest_center(points: Points, centers: Points) -> Labels:
    """The nearest of the centers (K, D) to each of the points (n, D): (n,)."""
    half = (centers**2).sum(axis=1) / 2
    parts = [points[start : start + 65_536] @ centers.T - half for start in range(0, len(points), 65_536)]
    return np.concatenate([part.argmax(axis=1) for part in parts])


def nearest_points(points: Points, count: int) -> NDArray[np.int64]:
    """The `count` nearest other points of each point, nearest first: (n, k)."""
    square, found = (points**2).sum(axis=1), []
    for start in range(0, len(points), CHUNK):
        part = points[start : start + CHUNK]
        closeness = part @ points.T - square / 2
        closeness[np.arange(len(part)), start + np.arange(len(part))] = -np.inf
        near = np.argpartition(-closeness, count, axis=1)[:, :count]
        order = np.argsort(-np.take_along_axis(closeness, near, axis=1), axis=1, kind="stable")
        found.append(np.take_along_axis(near, order, axis=1))
    return np.concatenate(found)


def neighbor_information(labels: Labels, neighbors: NDArray[np.int64]) -> float:
    """I: the mutual information between the groups of an image and its neighbor, in nats."""
    joint = joint_distribution(labels, neighbors)
    product = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    positive = joint > 0
    return float((joint[positive] * np.log(joint[positive] / product[positive])).sum())


def joint_distribution(labels: Labels, neighbors: NDArray[np.int64]) -> Values:
    """J, symmetrized: the share of pairs (image, neighbor) with each pair of labels, (K, K)."""
    groups = int(labels.max()) + 1
    pairs = np.repeat(labels, neighbors.shape[1]) * groups + labels[neighbors.ravel()]
    joint = np.bincount(pairs, minlength=groups * groups).reshape(groups, groups).astype(np.float64)
    return np.asarray((joint + joint.T) / (2 * joint.sum()))


def gaussian_cloud(points: Points, random: np.random.Generator) -> Points:
    """A Gaussian cloud with as many points and the same variances. The columns of `points` must be uncorrelated."""
    return np.asarray(random.standard_normal(points.shape) * points.std(axis=0), dtype=np.float32)
