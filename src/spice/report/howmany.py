"""The section on how many groups there are: the curve, the plausible numbers, and which groups split into which.

Shapes: N images.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spice.arrays import open_array
from spice.report.charts import Mark, Series, line_chart
from spice.report.content import Content
from spice.report.curves import Curve
from spice.runs.artifacts import CANDIDATES
from spice.runs.other_group_counts import parts_of
from spice.runs.records import CandidateCount, HowManyResult

# Groups shown for each number of groups, and splits shown between two numbers.
MOST_GROUPS, MOST_SPLITS = 60, 12


class Example(NamedTuple):
    """A group, shown by one of its images."""

    picture: str | None  # a data URL
    images: int


class Level(NamedTuple):
    """A plausible number of groups."""

    candidate: CandidateCount
    origin: str  # the evidence for it
    used: bool
    groups: list[Example]  # largest first


class Split(NamedTuple):
    """A group that becomes several at the next number of groups."""

    whole: Example
    parts: list[Example]


class Change(NamedTuple):
    """The groups that split from one plausible number of groups to the next."""

    before: int
    after: int
    splits: list[Split]
    more: int  # splits that are not shown


class HowMany(NamedTuple):
    """The section."""

    found: HowManyResult
    curve: Curve
    levels: list[Level]
    changes: list[Change]


def how_many_section(content: Content) -> HowMany | None:
    """The section; None if the user set the number of groups in every result with these features."""
    source = content.result.with_step("howmany")
    if source is None or source.howmany is None or not (source / CANDIDATES).exists():
        return None
    found, partitions = source.howmany, open_array(source.need(CANDIDATES))  # (candidates, N)
    examples = [_examples(content, partition) for partition in partitions]
    used = content.result.answer.clusters
    levels = [
        Level(
            candidate,
            origin(found, candidate),
            candidate.clusters == used,
            sorted(groups, key=lambda group: -group.images)[:MOST_GROUPS],
        )
        for candidate, groups in zip(found.candidates, examples, strict=True)
    ]
    changes = [_change(found, partitions, examples, *pair) for pair in pairwise(range(len(levels)))]
    return HowMany(found, _curve(found), levels, changes)


def origin(found: HowManyResult, candidate: CandidateCount) -> str:
    """The evidence for a number of groups: `peak of the curve, neighbor graph`."""
    counted = {"neighbor graph": found.communities, "neighbor graph, coarse": found.coarse_communities}
    words = ["peak of the curve"] if candidate.prominence > 0 else []
    words += [
        name
        for name, count in counted.items()
        if count is not None and candidate.clusters == min(found.counts, key=lambda tried: abs(np.log(tried / count)))
    ]
    return ", ".join(words) or "your labels"


def _curve(found: HowManyResult) -> Curve:
    """The part of the curve with the candidates."""
    last = max(30, 3 * max(candidate.clusters for candidate in found.candidates))
    shown = [place for place, count in enumerate(found.counts) if count <= last]
    counts, score = [found.counts[place] for place in shown], [found.score[place] for place in shown]
    marks = [
        Mark(candidate.clusters, candidate.score, f"{candidate.clusters} groups: {candidate.score:.2f}")
        for candidate in found.candidates
    ]
    lines = [
        Series("", counts, score),
        Series("best score without groups", [counts[0], counts[-1]], [found.null] * 2, "plain"),
    ]
    chart = line_chart(lines, x_title="groups", y_title="score", marks=marks)
    caption = "how well the group of an image predicts those of its neighbors, compared with data without groups"
    legend = (("selected", "these images"), ("plain", "best score of data without groups"))
    return Curve("Score of every number of groups", caption, chart, legend)


def _change(
    found: HowManyResult, partitions: NDArray[np.int32], examples: list[list[Example]], before: int, after: int
) -> Change:
    parts = parts_of(partitions[before], partitions[after])
    splits = [
        Split(examples[before][whole], [examples[after][part] for part in inside])
        for whole, inside in enumerate(parts)
        if len(inside) > 1
    ]
    counts = found.candidates[before].clusters, found.candidates[after].clusters
    return Change(*counts, splits[:MOST_SPLITS], max(0, len(splits) - MOST_SPLITS))


def _examples(content: Content, partition: NDArray[np.int32]) -> list[Example]:
    """Every group, shown by its most central image that the report has a picture of."""
    rank = content.labels.prototype_rank
    found = []
    for number in range(int(partition.max()) + 1):
        members = np.flatnonzero(partition == number)
        shown = members[np.isin(members, content.sheets.rows)] if content.sheets is not None else members[:0]
        found.append(Example(content.tile(int(shown[rank[shown].argmin()])) if len(shown) else None, len(members)))
    return found
