"""Runs made of files alone, by the program's own writers: nothing is trained."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike
from pydantic import JsonValue

from spice.data.collection import SCHEMA, Collection
from spice.data.problems import Problem
from spice.runs import Labels, Result, ResultEntry, RunFolder, open_result, write_labels
from spice.runs.manifest import now, versions
from spice.runs.records import (
    RESULTS,
    HeadsResult,
    LabelsResult,
    NeighborsResult,
    Record,
    ScanResult,
    SelectedHead,
    StepResult,
    StepWarning,
    ViewsResult,
    write_record,
)

IN_RESULT = ("labels", "model", "pictures", "report")


def make_run(
    path: Path,
    labels: Labels,
    results: Mapping[str, StepResult] = {},
    *,
    source: str | None = None,
    settings: dict[str, JsonValue] | None = None,
    problems: Sequence[Problem] = (),
    copy_of: Mapping[int, int] = {},
) -> Result:
    """A finished run; what its steps report in `results` takes the place of the plainest report that they can give."""
    path.mkdir(parents=True)
    images = len(labels.path)
    reported: dict[str, StepResult] = {
        "scan": ScanResult(images=images, problems=len(problems), copies=len(copy_of), identity="made"),
        "encode": StepResult(),
        "views": ViewsResult(encoder="lite0", size=160, width=1280, space="images"),
        "neighbors": NeighborsResult(neighbors=2),
        "kmeans": StepResult(),
        "heads": heads_result([[2.0]], head=0),
        "labels": labels_result(int(labels.cluster.max()) + 1),
        "model": StepResult(),
    }
    given = settings or {}
    entry = ResultEntry(requested=given, settings=given, folders={}, created=now(), versions=versions())
    RunFolder.open_or_create(path, source=source).publish("made", entry)
    result = add_steps(path, {**reported, **results})
    write_labels(result.folder, labels)
    _collection(labels.path, problems, copy_of).save(path / result.entry.folders["scan"])
    RunFolder.open(path).link()
    return result


def made_labels(cluster: ArrayLike, trust: ArrayLike, **columns: Any) -> Labels:
    """Labels of images in order of nearness to the center; `trust` is chance, confidence, margin and reliability."""
    numbers = np.asarray(cluster, dtype=np.int32)
    images, ratio = len(numbers), np.full(len(numbers), trust, dtype=np.float32)
    rank = np.empty(images, dtype=np.int32)
    rank[np.argsort(numbers, kind="stable")] = np.concatenate([np.arange(size) for size in np.bincount(numbers)])
    plain: dict[str, Any] = {
        "path": [f"{row}.jpg" for row in range(images)],
        "cluster": numbers,
        **dict.fromkeys(("chance", "confidence", "margin", "reliability"), ratio),
        "reliable": ratio > 0.95,
        "nearest_other_cluster": (numbers + 1) % (numbers.max() + 1),
        "prototype_rank": rank,
        "outlier": np.zeros(images, np.bool_),
        "duplicate_of": [""] * images,
    }
    return Labels(**(plain | columns))


def add_steps(
    path: Path, results: Mapping[str, StepResult], *, warnings: Mapping[str, list[StepWarning]] = {}
) -> Result:
    """The current result of the run in `path`, in which these steps are finished too, or reported something else."""
    run = RunFolder.open(path)
    name = run.manifest.current or ""
    entry = run.manifest.results[name]
    folders = {
        step: f"results/{name}" if step in IN_RESULT else f"steps/{step}-made"
        for step in RESULTS
        if step in results or step in entry.folders
    }
    for step, result in results.items():
        (path / folders[step]).mkdir(parents=True, exist_ok=True)
        write_record(path / folders[step], record_of(step, result, warnings=warnings.get(step, [])))
    run.publish(name, entry.model_copy(update={"folders": folders}))
    return open_result(path)


def record_of(
    step: str, result: StepResult, *, seconds: float = 1.0, warnings: Sequence[StepWarning] = ()
) -> Record[StepResult]:
    return Record[StepResult](
        step=step,
        key="made",
        seconds=seconds,
        cpu_seconds=seconds,
        finished=now(),
        warnings=list(warnings),
        result=result,
    )


def heads_result(loss: list[list[float]], *, head: int) -> HeadsResult:
    """Heads with these losses (snapshots, H), scored every fifth epoch; one is selected at the end."""
    epochs = [5 * number for number in range(1, len(loss) + 1)]
    return HeadsResult(
        epochs=epochs,
        loss=loss,
        score=loss,
        distinct=loss,
        selected=SelectedHead(head=head, epoch=epochs[-1], loss=loss[-1][head]),
        good=[0],
        head_agreement=0.9,
    )


def labels_result(
    clusters: int, *, neighbors: int = 2, kmeans_reliable: int = 0, head_overlap: list[float] | None = None
) -> LabelsResult:
    return LabelsResult(
        clusters=clusters,
        neighbors=neighbors,
        threshold=0.95,
        kmeans_reliable=kmeans_reliable,
        kmeans_agreement=0.7,
        head_overlap=head_overlap,
    )


def _collection(paths: list[str], problems: Sequence[Problem], copy_of: Mapping[int, int]) -> Collection:
    rows = list(range(len(paths)))
    table = {
        "path": paths,
        "hash": [f"hash-{copy_of.get(row, row)}" for row in rows],
        "width": rows,
        "height": rows,
        "gray": np.zeros(len(rows), dtype=np.bool_),
        "copy_of": pa.array([copy_of.get(row) for row in rows], pa.int64()),
        "number": rows,
        "row": rows,
        "pixels": [f"pixels-{row}" for row in rows],
    }
    return Collection(pa.table(table).cast(SCHEMA), tuple(problems))
