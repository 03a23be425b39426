"""Whether a cluster can be trusted, in one word and one reason, from label-free figures alone.

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
# Half the images of a weak cluster are hardly likelier to be in it than in the next.
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
    """A grade and the figures behind it."""

    grade: Grade
    reason: str
    share: float  # of its images that are reliable
    margin: float  # the median
    confused_with: int | None
    confusion: float  # share of its images' neighbors that lie in that cluster
    kmeans: float  # share of its images that one cluster of k-means holds
    heads: float | None  # mean overlap (Jaccard index) with the nearest cluster of each other good head


def verdicts(
    labels: Labels, votes: Share, kmeans: NDArray[np.int32], agreement: Sequence[float] | None = None
) -> list[Verdict]:
    """One verdict per cluster, from `neighbor_votes` (K, K) and the agreement of heads with each cluster (K,)."""
    heads: Sequence[float | None] = agreement or [None] * len(votes)
    return [_verdict(labels, votes[number], kmeans, heads[number], number) for number in range(len(votes))]


def neighbor_votes(labels: Labels, neighbors: NDArray[np.int64], clusters: int, *, neighbors_counted: int) -> Share:
    """Share of the neighbors counted of each cluster's images that lie in each cluster: (K, K)."""
    cluster = labels.cluster.astype(np.int64)
    counts = np.zeros(clusters * clusters, dtype=np.int64)
    for start in range(0, len(cluster), _CHUNK):
        theirs = cluster[neighbors[start : start + _CHUNK, :neighbors_counted]]  # (B, S)
        pairs = cluster[start : start + _CHUNK, None] * clusters + theirs
        counts += np.bincount(pairs.ravel(), minlength=clusters * clusters)
    table = counts.reshape(clusters, clusters)
    return np.asarray(table / np.maximum(1, table.sum(axis=1, keepdims=True)), dtype=np.float64)


def _verdict(labels: Labels, votes: Share, kmeans: NDArray[np.int32], heads: float | None, number: int) -> Verdict:
    members = labels.cluster == number
    if not members.any():
        return Verdict(Grade.WEAK, "no image fell into it", 0.0, 0.0, None, 0.0, 0.0, None)
    share, margin = float(labels.reliable[members].mean()), float(np.median(labels.margin[members]))
    elsewhere = np.where(np.arange(len(votes)) == number, 0.0, votes)
    other = int(elsewhere.argmax())
    confusion = float(elsewhere[other])
    together = float(np.bincount(kmeans[members]).max() / members.sum())
    grade = _grade(share, margin, heads)
    reason = "; ".join([*_trust(share, margin), *_heads(heads), *_confusion(confusion, other, share)])
    return Verdict(grade, reason, share, margin, other if confusion > 0 else None, confusion, together, heads)


def _grade(share: float, margin: float, heads: float | None) -> Grade:
    if share < WEAK_SHARE or margin < WEAK_MARGIN:
        return Grade.WEAK
    if share < GOOD_SHARE or (heads is not None and heads < ANOTHER_CLUSTER):
        return Grade.MIXED
    return Grade.GOOD


def _trust(share: float, margin: float) -> list[str]:
    words = f"{share:.0%} of its images are reliable" if share > 0 else "none of its images is reliable"
    return (
        [words, "half of them are hardly likelier here than in the next cluster"] if margin < WEAK_MARGIN else [words]
    )


def _heads(overlap: float | None) -> list[str]:
    if overlap is None:
        return []
    if overlap >= SAME_CLUSTER:
        return ["other heads found it too"]
    return [
        "other heads found a part of it" if overlap >= ANOTHER_CLUSTER else "other heads divide its images otherwise"
    ]


def _confusion(confusion: float, other: int, share: float) -> list[str]:
    if confusion >= CONFUSED_SHARE:
        return [f"{confusion:.0%} of their neighbors lie in cluster {other}"]
    return ["their neighbors are scattered over other clusters"] if share < GOOD_SHARE else []
