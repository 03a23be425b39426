"""Whether a cluster can be trusted, in one word and one reason, from label-free figures alone."""

from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spice.runs import Labels

# The command line draws its bars green from the same share on.
GOOD_SHARE = 0.5
WEAK_SHARE = 0.1
# Half the images of a weak cluster are hardly nearer to it than to the next.
WEAK_MARGIN = 0.1
# A cluster that shares more than this part of its neighbors with one other cluster is told to be confused with it.
CONFUSED_SHARE = 0.1


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


def verdicts(labels: Labels, votes: NDArray[np.float64]) -> list[Verdict]:
    """One verdict per cluster; `votes` (K, K) is the share of a cluster's neighbors that lie in each cluster."""
    return [_verdict(labels, votes, number) for number in range(len(votes))]


def neighbor_votes(
    cluster: NDArray[np.int32], neighbors: NDArray[np.int64], clusters: int, *, asked: int, chunk: int = 65536
) -> NDArray[np.float64]:
    """Share of the `asked` neighbors of each cluster's images that lie in each cluster: (K, K)."""
    counts = np.zeros(clusters * clusters, dtype=np.int64)
    for start in range(0, len(cluster), chunk):
        theirs = cluster[neighbors[start : start + chunk, :asked]]  # (B, asked)
        pairs = cluster[start : start + chunk, None].astype(np.int64) * clusters + theirs
        counts += np.bincount(pairs.ravel(), minlength=clusters * clusters)
    table = counts.reshape(clusters, clusters)
    return np.asarray(table / np.maximum(1, table.sum(axis=1, keepdims=True)), dtype=np.float64)


def _verdict(labels: Labels, votes: NDArray[np.float64], number: int) -> Verdict:
    members = labels.cluster == number
    if not members.any():
        return Verdict(Grade.WEAK, "no image fell into it", 0.0, 0.0, None, 0.0)
    share, margin = float(labels.reliable[members].mean()), float(np.median(labels.margin[members]))
    elsewhere = votes[number].copy()
    elsewhere[number] = 0.0
    other = int(elsewhere.argmax())
    confusion = float(elsewhere[other])
    grade = _grade(share, margin)
    reason = f"{share:.0%} of its images are reliable"
    if margin < WEAK_MARGIN:
        reason += f"; half of them lead the next cluster by less than {margin:.2f}"
    if confusion > CONFUSED_SHARE:
        reason += f"; {confusion:.0%} of their neighbors lie in cluster {other}"
    return Verdict(grade, reason, share, margin, other if confusion > 0 else None, confusion)


def _grade(share: float, margin: float) -> Grade:
    if share < WEAK_SHARE or margin < WEAK_MARGIN:
        return Grade.WEAK
    return Grade.GOOD if share >= GOOD_SHARE else Grade.MIXED
