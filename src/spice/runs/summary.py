"""A summary of a run: what the command line prints and the report starts with."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from spice.runs.labels import Labels
from spice.runs.other_group_counts import OtherCount, other_counts
from spice.runs.records import (
    FeaturesResult,
    HeadsResult,
    HowManyResult,
    JointResult,
    LabelsResult,
    Record,
    ScanResult,
    StepResult,
    StepWarning,
    ViewsResult,
)
from spice.runs.suggested_names import read_words, suggest_names
from spice.trust.grade import Grade, grades

if TYPE_CHECKING:
    from spice.runs.result import Result


# Warnings about an intermediate answer. The last step repeats those that still hold.
_OF_THE_ANSWER = frozenset({"NoReliableImagesWarning"})
_OF_THE_HEADS = frozenset({"EmptyClusterWarning", "GiantClusterWarning", "SharedPrototypeWarning"})


class Cluster(BaseModel, frozen=True):
    """One cluster: how large it is, and how far to trust it."""

    cluster: int
    images: int
    reliable: int
    reliability: float | None  # mean of r_i over its images; None for an empty cluster
    chance: float | None  # mean over its images
    confidence: float | None
    nearest_other_cluster: int | None  # the second choice of most of its images
    grade: Grade  # how well it is separated from the others
    name: str  # given by a person, or a suggestion with a question mark; empty if there is neither


class RunSummary(BaseModel, frozen=True):
    """A run, as far as it is finished."""

    run: str
    result: str  # its name among the run's results
    source: str | None
    images: int
    reliable: int | None  # None: there are no labels yet
    clusters: list[Cluster]  # as predicted, before edits; only the names are those of the edits
    edited: bool  # whether edits moved images or set groups aside
    # What the steps reported; None if a step is not part of the run, or not finished.
    scan: ScanResult
    features: FeaturesResult | None
    views: ViewsResult | None
    howmany: HowManyResult | None
    other_counts: list[OtherCount]  # other plausible numbers of groups, if the number was searched for
    heads: HeadsResult | None
    joint: JointResult | None
    labels: LabelsResult | None
    warnings: list[StepWarning]
    seconds: dict[str, float]
    stopped_before: str | None  # what the run would do next, if it was stopped on purpose


def summarize(result: "Result", *, stopped_before: str | None = None) -> RunSummary:
    """The summary of a result; without labels there are no clusters yet."""
    records = result.records
    answer = result.answer if "labels" in records else None
    labels = None if answer is None else result.labels
    return RunSummary(
        run=str(result.run),
        result=result.name,
        source=result.manifest.source,
        images=result.scan.images,
        reliable=None if labels is None else int(labels.reliable.sum()),
        clusters=[] if labels is None else _clusters(result, labels),
        edited=labels is not None and bool((result.groups.shown != labels.cluster).any()),
        scan=result.scan,
        features=result.features,
        views=result.views if "views" in records else None,
        howmany=result.howmany,
        other_counts=_other_counts(result, labels),
        heads=result.heads if "heads" in records else None,
        joint=result.joint,
        labels=answer,
        warnings=_current_warnings(records, refined=result.refined if "labels" in records else False),
        seconds={name: record.seconds for name, record in records.items()},
        stopped_before=stopped_before,
    )


def _current_warnings(records: Mapping[str, Record[StepResult]], *, refined: bool) -> list[StepWarning]:
    """The warnings that hold for the final answer.

    Earlier steps judge their own answers: the last step judges reliability again, and joint training replaces the
    clusters of the heads.
    """
    replaced = {step: _OF_THE_ANSWER for step in records if step != "labels" and "labels" in records}
    if refined:
        replaced["heads"] = _OF_THE_ANSWER | _OF_THE_HEADS
    return [
        warning
        for step, record in records.items()
        for warning in record.warnings
        if warning.name not in replaced.get(step, frozenset())
    ]


def _other_counts(result: "Result", labels: Labels | None) -> list[OtherCount]:
    found = result.howmany
    if found is None or labels is None:
        return []
    return other_counts(result, found, labels.cluster, result.answer.clusters)


def _clusters(result: "Result", labels: Labels) -> list[Cluster]:
    """Every cluster of `labels`, including empty ones."""
    answer = result.answer
    graded = grades(labels.cluster, result.neighbors[:, : answer.neighbors], answer.clusters)
    suggested = suggest_names(read_words(result), result.groups)
    names = result.groups.names | {number: f"{word}?" for number, word in suggested.items()}
    return [_cluster(labels, number, grade, names.get(number, "")) for number, grade in enumerate(graded)]


def _cluster(labels: Labels, number: int, grade: Grade, name: str) -> Cluster:
    members = labels.cluster == number
    nearest = np.bincount(labels.nearest_other_cluster[members])
    return Cluster(
        cluster=number,
        images=int(members.sum()),
        reliable=int(labels.reliable[members].sum()),
        reliability=_mean(labels.reliability[members]),
        chance=_mean(labels.chance[members]),
        confidence=_mean(labels.confidence[members]),
        nearest_other_cluster=int(nearest.argmax()) if len(nearest) else None,
        grade=grade,
        name=name,
    )


def _mean(values: NDArray[np.float32]) -> float | None:
    return round(float(values.mean(dtype=np.float64)), 6) if len(values) else None
