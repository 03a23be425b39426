"""Whether a cluster can be trusted, in one word and one reason, from label-free figures alone.

Shapes: N images, K clusters, S neighbors.
"""

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


def verdicts(labels: Labels, votes: Share, kmeans: NDArray[np.int32]) -> list[Verdict]:
    """One verdict per cluster; `votes` (K, K) are those of `neighbor_votes`."""
    return [_verdict(labels, votes[number], kmeans, number) for number in range(len(votes))]


def neighbor_votes(labels: Labels, neighbors: NDArray[np.int64], clusters: int, *, asked: int) -> Share:
    """Share of the `asked` neighbors of each cluster's images that lie in each cluster: (K, K)."""
    cluster = labels.cluster.astype(np.int64)
    counts = np.zeros(clusters * clusters, dtype=np.int64)
    for start in range(0, len(cluster), _CHUNK):
        theirs = cluster[neighbors[start : start + _CHUNK, :asked]]  # (B, S)
        pairs = cluster[start : start + _CHUNK, None] * clusters + theirs
        counts += np.bincount(pairs.ravel(), minlength=clusters * clusters)
    table = counts.reshape(clusters, clusters)
    return np.asarray(table / np.maximum(1, table.sum(axis=1, keepdims=True)), dtype=np.float64)


def _verdict(labels: Labels, votes: Share, kmeans: NDArray[np.int32], number: int) -> Verdict:
    members = labels.cluster == number
    if not members.any():
        return Verdict(Grade.WEAK, "no image fell into it", 0.0, 0.0, None, 0.0, 0.0)
    share, margin = float(labels.reliable[members].mean()), float(np.median(labels.margin[members]))
    elsewhere = np.where(np.arange(len(votes)) == number, 0.0, votes)
    other = int(elsewhere.argmax())
    confusion = float(elsewhere[other])
    together = float(np.bincount(kmeans[members]).max() / members.sum())
    grade = _grade(share, margin)
    reason = _reason(share, margin, confusion, other)
    return Verdict(grade, reason, share, margin, other if confusion > 0 else None, confusion, together)


def _grade(share: float, margin: float) -> Grade:
    if share < WEAK_SHARE or margin < WEAK_MARGIN:
        return Grade.WEAK
    return Grade.GOOD if share >= GOOD_SHARE else Grade.MIXED


def _reason(share: float, margin: float, confusion: float, other: int) -> str:
    parts = [f"{share:.0%} of its images are reliable" if share > 0 else "none of its images is reliable"]
    if margin < WEAK_MARGIN:
        parts.append("half of them are hardly likelier here than in the next cluster")
    if confusion >= CONFUSED_SHARE:
        parts.append(f"{confusion:.0%} of their neighbors lie in cluster {other}")
    elif share < GOOD_SHARE:
        parts.append("their neighbors are scattered over other clusters")
    return "; ".join(parts)
