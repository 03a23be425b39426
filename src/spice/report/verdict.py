"""Whether a cluster can be trusted: a grade and a reason, from measures that need no labels.

Shapes: N images, K clusters, S neighbors.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spice.runs import Labels

# The command line draws its bars green from the same share on.
GOOD_SHARE = 0.5
WEAK_SHARE = 0.1
# Half the images of a weak cluster are hardly more likely to be in it than in the next.
WEAK_MARGIN = 0.1
# Overlap with other heads' clusters: below the first, more images are in one of the two than in both, and it is not the
# same cluster any more; from the second on it is.
ANOTHER_CLUSTER, SAME_CLUSTER = 0.5, 0.9
# From this share of its neighbors on, the other cluster is named in the reason.
CONFUSED_SHARE = 0.05

_CHUNK = 65536

Share = NDArray[np.float64]


class Grade(StrEnum):
    """How far to trust a cluster."""

    GOOD = "good"
    MIXED = "mixed"
    WEAK = "weak"


class Verdict(NamedTuple):
    """A grade and the measures behind it."""

    grade: Grade
    reason: str
    share: float  # of its images that are reliable
    margin: float  # the median
    confused_with: int | None
    confusion: float  # share of its images' neighbors that are in that cluster
    kmeans: float  # share of its images that one cluster of k-means holds
    heads: float | None  # mean overlap (Jaccard index) with the nearest cluster of each other good head


def verdicts(
    labels: Labels, votes: Share, kmeans: NDArray[np.int32], overlap: Sequence[float] | None = None
) -> list[Verdict]:
    """One verdict per cluster, from `neighbor_votes` (K, K) and the overlap of each cluster with other heads' (K,)."""
    heads: Sequence[float | None] = overlap or [None] * len(votes)
    return [_verdict(labels, votes[number], kmeans, heads[number], number) for number in range(len(votes))]


def neighbor_votes(labels: Labels, neighbors: NDArray[np.int64], clusters: int) -> Share:
    """Share of the neighbors (N, S) of each cluster's images that are in each cluster: (K, K)."""
    cluster = labels.cluster.astype(np.int64)
    counts = np.zeros(clusters * clusters, dtype=np.int64)
    for start in range(0, len(cluster), _CHUNK):
        pairs = cluster[start : start + _CHUNK, None] * clusters + cluster[neighbors[start : start + _CHUNK]]  # (B, S)
        counts += np.bincount(pairs.ravel(), minlength=clusters * clusters)
    table = counts.reshape(clusters, clusters)
    return np.asarray(table / np.maximum(1, table.sum(axis=1, keepdims=True)), dtype=np.float64)


def _verdict(labels: Labels, votes: Share, kmeans: NDArray[np.int32], heads: float | None, number: int) -> Verdict:
    members = labels.cluster == number
    if not members.any():
        return Verdict(Grade.WEAK, "it has no images", 0.0, 0.0, None, 0.0, 0.0, None)
    share, margin = float(labels.reliable[members].mean()), float(np.median(labels.margin[members]))
    elsewhere = np.where(np.arange(len(votes)) == number, 0.0, votes)
    other = int(elsewhere.argmax())
    confusion = float(elsewhere[other])
    together = float(np.bincount(kmeans[members]).max() / members.sum())
    reasons = [f"{share:.0%} of its images are reliable" if share > 0 else "none of its images is reliable"]
    if margin < WEAK_MARGIN:
        reasons.append("for half of them, the next cluster is almost as likely")
    if heads is not None:
        reasons.append(_overlap(heads))
    if confusion >= CONFUSED_SHARE:
        reasons.append(f"{confusion:.0%} of its images' neighbors are in cluster {other}")
    elif share < GOOD_SHARE:
        reasons.append("the neighbors of its images are scattered over other clusters")
    confused_with = other if confusion > 0 else None
    grade = _grade(share, margin, heads)
    return Verdict(grade, "; ".join(reasons), share, margin, confused_with, confusion, together, heads)


def _grade(share: float, margin: float, heads: float | None) -> Grade:
    if share < WEAK_SHARE or margin < WEAK_MARGIN:
        return Grade.WEAK
    if share < GOOD_SHARE or (heads is not None and heads < ANOTHER_CLUSTER):
        return Grade.MIXED
    return Grade.GOOD


def _overlap(heads: float) -> str:
    if heads >= SAME_CLUSTER:
        return "other heads found it too"
    return "other heads found part of it" if heads >= ANOTHER_CLUSTER else "other heads split its images differently"
