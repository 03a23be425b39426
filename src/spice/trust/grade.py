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


def grade_of(groups: float, own: float) -> Grade:
    """The grade of a group whose nearest neighbors come from this many groups, a share `own` from the group itself."""
    if groups <= GOOD_UP_TO:
        return Grade.GOOD if own > 0.5 else Grade.WEAK  # weak: nearly all of them are in one other group
    return Grade.WEAK if groups > WEAK_ABOVE else Grade.MIXED


def nearest_votes(cluster: NDArray[np.int32], neighbors: NDArray[np.int64], clusters: int) -> NDArray[np.float64]:
    """The share of each group among the five nearest neighbors of the images of each group: (K, K)."""
    return neighbor_votes(cluster, neighbors[:, :NEAREST], clusters)


def grades(cluster: NDArray[np.int32], neighbors: NDArray[np.int64], clusters: int) -> list[Grade]:
    """The grade of every group. An empty group is weak."""
    votes = nearest_votes(cluster, neighbors, clusters)
    counts, own = groups_among_neighbors(votes).tolist(), votes.diagonal().tolist()  # (K,) each; an empty group has 0
    return [grade_of(*one) for one in zip(counts, own, strict=True)]
