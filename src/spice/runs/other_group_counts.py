"""What another plausible number of groups would change: which groups it merges, and which it splits.

Shapes: N images, C candidates.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from spice.arrays import open_array
from spice.runs.artifacts import CANDIDATES
from spice.runs.records import HowManyResult

if TYPE_CHECKING:
    from spice.runs.result import Result

# A group counts as part of another if that one has at least this share of its images.
PART = 0.5
LISTED = 4  # how many of the groups to merge a message lists


class OtherCount(BaseModel, frozen=True):
    """A plausible number of groups other than the one that was used."""

    clusters: int
    joins: list[list[int]]  # groups of the answer that become one
    splits: list[int]  # groups of the answer that become several


def other_counts(result: "Result", found: HowManyResult, clusters: NDArray[np.int32], count: int) -> list[OtherCount]:
    """The plausible numbers of groups besides `count`, compared with the answer `clusters` (N,)."""
    partitions = open_array(result.need(CANDIDATES))  # (C, N)
    return [
        compare(candidate.clusters, clusters, np.asarray(partition))
        for candidate, partition in zip(found.candidates, partitions, strict=True)
        if candidate.clusters != count
    ]


def compare(count: int, answer: NDArray[np.int32], other: NDArray[np.int32]) -> OtherCount:
    """Which groups of the answer (N,) the partition `other` (N,) merges and splits."""
    joins = [parts for parts in parts_of(other, answer) if len(parts) > 1]
    splits = [number for number, parts in enumerate(parts_of(answer, other)) if len(parts) > 1]
    return OtherCount(clusters=count, joins=joins, splits=splits)


def parts_of(whole: NDArray[np.int32], part: NDArray[np.int32]) -> list[list[int]]:
    """For every group of one partition (N,), the groups of another that mostly lie in it."""
    table = np.zeros((int(part.max()) + 1, int(whole.max()) + 1), dtype=np.int64)
    np.add.at(table, (part, whole), 1)
    inside = (table >= PART * table.sum(axis=1, keepdims=True)) & (table > 0)
    inside &= table == table.max(axis=1, keepdims=True)  # of two halves, the first
    first = inside & (inside.cumsum(axis=1) == 1)
    return [np.flatnonzero(column).tolist() for column in first.T]


def counts_in_words(count: int, others: list[OtherCount], *, reason: str = "", width: int = 69) -> str:
    """`15, but 12 would also fit (12 would merge groups 6+13, 0+5, ...)`: what the nearest changes, in one line."""
    if not others:
        return f"{count}{reason}"
    nearest = nearest_count(count, others)
    fits = f"{count}{reason}, but {' or '.join(str(other.clusters) for other in others)} would also fit"
    changes = (_change(nearest, count, most=most) for most in (2, 1))
    explained = (f"{fits} ({nearest.clusters} would {change})" for change in changes if change)
    return next((line for line in explained if len(line) <= width), fits)


def nearest_count(count: int, others: list[OtherCount]) -> OtherCount:
    """The one that differs least from `count`."""
    return min(others, key=lambda other: max(other.clusters, count) / min(other.clusters, count))


def _change(other: OtherCount, count: int, *, most: int) -> str:
    """`merge groups 6+13, 0+5, ...` or `split groups 3, 4, ...`; empty if the groups overlap in another way."""
    if other.clusters < count:
        verb, parts = "merge groups", [_sum(group) for group in sorted(other.joins, key=len)]
    else:
        verb, parts, most = "split groups", [str(group) for group in other.splits], 2 * most
        verb = "split group" if len(parts) == 1 else verb
    more = ["..."] if len(parts) > most else []
    return f"{verb} {', '.join([*parts[:most], *more])}" if parts else ""


def _sum(groups: list[int]) -> str:
    """`6+13`, `3+4+6 and 4 more`."""
    shown = groups if len(groups) <= LISTED else groups[: LISTED - 1]
    rest = len(groups) - len(shown)
    return "+".join(map(str, shown)) + (f" and {rest} more" if rest else "")
