"""A finished run in figures: what the command prints, what the report opens with. Read from the files alone."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, JsonValue

from spice.runs.artifacts import LABELS
from spice.runs.labels import Labels, read_labels
from spice.runs.manifest import Manifest, read_manifest


class Cluster(BaseModel):
    """One cluster: how large, and how far to trust it."""

    model_config = ConfigDict(frozen=True)

    cluster: int
    images: int
    reliable: int
    reliability: float | None  # mean of r_i over its images; None for an empty cluster
    probability: float | None
    # The cluster that most of its images would fall to next.
    nearest_other_cluster: int | None


class Warned(BaseModel):
    """A warning that a step gave: its class by name, and its words."""

    model_config = ConfigDict(frozen=True)

    name: str
    text: str


class Account(BaseModel):
    """The whole run, as far as it has come."""

    model_config = ConfigDict(frozen=True)

    run: str
    source: str | None
    images: int
    reliable: int | None  # None: there are no labels yet
    clusters: list[Cluster]
    # What each step found out, by step and name: problems, copies, feature width, loss of the selected head, ...
    figures: dict[str, dict[str, JsonValue]]
    warnings: list[Warned]
    seconds: dict[str, float]
    stopped_before: str | None  # what the settings ask for and the run was told to stop before


def account(folder: Path) -> Account:
    """The account of the run in `folder`. One that was stopped before its labels has no clusters."""
    manifest = read_manifest(folder)
    labels = read_labels(folder) if (folder / LABELS.name).exists() else None
    return Account(
        run=str(folder),
        source=manifest.source,
        images=_images(manifest) if labels is None else len(labels.path),
        reliable=None if labels is None else int(labels.reliable.sum()),
        clusters=[] if labels is None else clusters(labels, count=_clusters_asked_for(manifest)),
        figures={name: _without_warnings(step.figures) for name, step in manifest.steps.items()},
        warnings=[warned for step in manifest.steps.values() for warned in _warnings(step.figures)],
        seconds={name: step.seconds for name, step in manifest.steps.items()},
        stopped_before=_stopped_before(manifest),
    )


def clusters(labels: Labels, *, count: int) -> list[Cluster]:
    """Every cluster of `labels`, the empty ones too."""
    return [_cluster(labels, number) for number in range(count)]


def _cluster(labels: Labels, number: int) -> Cluster:
    members = labels.cluster == number
    return Cluster(
        cluster=number,
        images=int(members.sum()),
        reliable=int(labels.reliable[members].sum()),
        reliability=_mean(labels.reliability[members]),
        probability=_mean(labels.probability[members]),
        nearest_other_cluster=_commonest(labels.nearest_other_cluster[members]),
    )


def _mean(values: NDArray[np.float32]) -> float | None:
    return round(float(values.mean(dtype=np.float64)), 6) if len(values) else None


def _commonest(values: NDArray[np.int32]) -> int | None:
    return int(np.bincount(values).argmax()) if len(values) else None


def _clusters_asked_for(manifest: Manifest) -> int:
    heads = manifest.settings["heads"]
    assert isinstance(heads, dict)
    clusters_asked_for = heads["clusters"]
    assert isinstance(clusters_asked_for, int)
    return clusters_asked_for


def _stopped_before(manifest: Manifest) -> str | None:
    if "labels" not in manifest.steps:
        return "the labels"
    return "joint training" if manifest.settings.get("joint") and "joint" not in manifest.steps else None


def _images(manifest: Manifest) -> int:
    found = manifest.steps["scan"].figures["images"] if "scan" in manifest.steps else 0
    assert isinstance(found, int)
    return found


def _warnings(figures: Mapping[str, JsonValue]) -> list[Warned]:
    found = figures.get("warnings", [])
    return [_warned(warned) for warned in found] if isinstance(found, list) else []


def _warned(found: JsonValue) -> Warned:
    """Runs of the first days have the words alone."""
    return Warned(name="SpiceWarning", text=found) if isinstance(found, str) else Warned.model_validate(found)


def _without_warnings(figures: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in figures.items() if name != "warnings"}
