"""How well a group is separated from the others, without labels: good, mixed or weak.

Shapes: N images, K groups, S neighbors.
"""

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from spice.trust.evidence import groups_among_neighbors, neighbor_votes

# Neighbors to use: the nearest ones show best whether two groups are separated.
NEAREST = 5
# Thresholds for the effective number of groups among them (benchmarks/verdicts.py measures the purity of each grade).
GOOD_UP_TO, WEAK_ABOVE = 1.5, 3.0


class Grade(StrEnum):
    """How far to trust a group."""

    GOOD = "good"
    MIXED = "mixed"
    WEAK = "weak"


def grade_of(groups: float) -> Grade:
    """The grade of a group, from the effective number of groups among its nearest neighbors."""
    return Grade.GOOD if groups <= GOOD_UP_TO else Grade.WEAK if groups > WEAK_ABOVE else Grade.MIXED


def nearest_votes(cluster: NDArray[np.int32], neighbors: NDArray[np.int64], clusters: int) -> NDArray[np.float64]:
    """The share of each group among the five nearest neighbors of the images of each group: (K, K)."""
    return neighbor_votes(cluster, neighbors[:, :NEAREST], clusters)


def grades(cluster: NDArray[np.int32], neighbors: NDArray[np.int64], clusters: int) -> list[Grade]:
    """The grade of every group. An empty group is weak."""
    counts = groups_among_neighbors(nearest_votes(cluster, neighbors, clusters))  # (K,)
    sizes = np.bincount(cluster, minlength=clusters)
    return [grade_of(count) if size else Grade.WEAK for count, size in zip(counts.tolist(), sizes, strict=True)]
