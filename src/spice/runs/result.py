"""A finished result of a run, read from its files. Does not import torch."""

from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from spice.arrays import open_array
from spice.errors import UserError
from spice.runs.apply_edits import apply_edits
from spice.runs.artifacts import (
    FEATURES,
    IMAGES,
    LABELS,
    MODEL,
    NEIGHBORS,
    REFINED_FEATURES,
    REFINED_NEIGHBORS,
    REFINED_SIMILARITIES,
    SCORES,
    SIMILARITIES,
    Artifact,
)
from spice.runs.edits import Edits, read_edits
from spice.runs.folder import is_run
from spice.runs.groups import Base, Groups
from spice.runs.labels import Labels, read_labels
from spice.runs.manifest import MANIFEST, Manifest, ResultEntry, Step, read_manifest
from spice.runs.records import (
    FeaturesResult,
    HeadsResult,
    HowManyResult,
    JointResult,
    LabelsResult,
    NeighborsResult,
    Record,
    ScanResult,
    StepResult,
    ViewsResult,
    read_record,
)
from spice.runs.scores import Scores, read_scores
from spice.tables import read_parquet
from spice.wording import quoted

EDITED = "edited"  # folder with the groups of removed results that people edited

Kind = TypeVar("Kind", bound=StepResult)


class Result:
    """One result: the folders of its steps, and what the steps reported. Each file is read once.

    Args:
        entry: None: the one that the manifest has under this name.
    """

    def __init__(self, run: Path, manifest: Manifest, name: str, entry: ResultEntry | None = None) -> None:
        self.run, self.manifest, self.name = run, manifest, name
        self.entry = entry or manifest.results[name]

    def reread(self) -> "Result":
        """A copy that reads every file again."""
        return Result(self.run, self.manifest, self.name, self.entry)

    def with_current_edits(self) -> "Result":
        """A copy that reads only the edits again; the other files never change."""
        fresh = self.reread()
        same = ("records", "labels", "hashes", "base", "neighbors", "answer_features", "similarities")
        fresh.__dict__.update({name: value for name, value in self.__dict__.items() if name in same})
        return fresh

    def __truediv__(self, artifact: Artifact) -> Path:
        """Where an artifact is, or would be."""
        # Files that no step makes, such as scores, are next to the labels.
        folder = self._folder_of(artifact)
        return (self.folder if folder is None else self.run / folder) / artifact.name

    def need(self, artifact: Artifact) -> Path:
        """The path of an artifact that must exist."""
        path = self / artifact
        if not path.exists():
            raise UserError(f"{path} is missing; recreate it with: spice resume {quoted(self.run)}")
        record = self.records.get(self._made_by(artifact))
        if record is not None and record.is_damaged(path.parent, artifact.name):
            raise UserError(f"{path} is damaged; recreate it with: spice resume {quoted(self.run)}")
        return path

    def _made_by(self, artifact: Artifact) -> str:
        """The step that made an artifact. In runs of version 0.2, the step `views` made the features, too."""
        return "views" if artifact == FEATURES and "encode" not in self.entry.folders else artifact.step

    def _folder_of(self, artifact: Artifact) -> str | None:
        return self.entry.folders.get(self._made_by(artifact))

    @property
    def folder(self) -> Path:
        """The folder with the labels, the model and the report."""
        if "labels" not in self.entry.folders:
            raise UserError(f"{self.run / MANIFEST} is damaged: the result {self.name} has no labels")
        return self.run / self.entry.folders["labels"]

    @cached_property
    def records(self) -> dict[str, Record[StepResult]]:
        """The records of all finished steps, in order."""
        found = {step: read_record(self.run / folder, step) for step, folder in self.entry.folders.items()}
        return {step: record for step, record in found.items() if record is not None}

    @property
    def scan(self) -> ScanResult:
        return self._needed("scan", ScanResult)

    @property
    def features(self) -> FeaturesResult | None:
        return self._of("features", FeaturesResult)

    @property
    def views(self) -> ViewsResult:
        return self._needed("views", ViewsResult)

    @property
    def howmany(self) -> HowManyResult | None:
        return self._of("howmany", HowManyResult)

    @property
    def recall(self) -> float:
        """The share of the true neighbors that were found."""
        found = self._of("neighbors", NeighborsResult)
        return 1.0 if found is None else found.recall

    @property
    def heads(self) -> HeadsResult:
        return self._needed("heads", HeadsResult)

    @property
    def joint(self) -> JointResult | None:
        return self._of("joint", JointResult)

    @property
    def answer(self) -> LabelsResult:
        return self._needed("labels", LabelsResult)

    @property
    def refined(self) -> bool:
        """Whether the labels come from joint training."""
        return self.joint is not None and self.joint.used

    @property
    def refinement(self) -> Literal["no", "yes", "rejected"]:
        """Whether joint training was run, and its answer used."""
        return "no" if self.joint is None else "yes" if self.joint.used else "rejected"

    @cached_property
    def labels(self) -> Labels:
        if (self / LABELS).exists():
            self.need(LABELS)
        return read_labels(self.folder)

    @cached_property
    def hashes(self) -> list[str]:
        """Hashes of the images' contents (N,), in the order of the labels."""
        found: list[str] = read_parquet(self.need(IMAGES), ["hash"]).column("hash").to_pylist()
        return found

    @cached_property
    def base(self) -> Base:
        """The groups before any edit."""
        return Base.of(self.name, self.labels, self.hashes, clusters=self.answer.clusters)

    @cached_property
    def groups(self) -> Groups:
        """The groups that people see: the labels after all edits of the run."""
        return self.groups_after(read_edits(self.run))

    def with_step(self, step: Step) -> "Result | None":
        """This result if the step was run for it, else another one on the same features for which it was."""
        if step in self.entry.folders:
            return self
        features = self._folder_of(FEATURES)
        others = (Result(self.run, self.manifest, name) for name in self.manifest.results)
        same = (other for other in others if other._folder_of(FEATURES) == features)
        return next((other for other in same if step in other.entry.folders), None)

    def groups_after(self, edits: Edits) -> Groups:
        """The groups after these edits."""
        return apply_edits(self.base, edits, earlier=self._other)

    def _other(self, name: str) -> Base | None:
        """Another result of the run, or what was saved of one that was removed."""
        if name in self.manifest.results:
            return Result(self.run, self.manifest, name).base
        return _saved_base(self.run, name)

    @cached_property
    def scores(self) -> Scores | None:
        return read_scores(self / SCORES)

    @cached_property
    def neighbors(self) -> NDArray[np.int64]:
        """(N, S), mapped: the nearest images by the features that the labels come from."""
        artifact = REFINED_NEIGHBORS if self.refined else NEIGHBORS
        return cast(NDArray[np.int64], open_array(self.need(artifact)))

    @cached_property
    def answer_features(self) -> NDArray[np.float32]:
        """(N, D), mapped: the features that the labels come from."""
        artifact = REFINED_FEATURES if self.refined else FEATURES
        return cast(NDArray[np.float32], open_array(self.need(artifact)))

    @cached_property
    def similarities(self) -> NDArray[np.float32]:
        """(N, S), mapped."""
        artifact = REFINED_SIMILARITIES if self.refined else SIMILARITIES
        return cast(NDArray[np.float32], open_array(self.need(artifact)))

    def _of(self, step: str, kind: type[Kind]) -> Kind | None:
        record = self.records.get(step)
        if record is None:
            return None
        assert isinstance(record.result, kind)
        return record.result

    def _needed(self, step: str, kind: type[Kind]) -> Kind:
        found = self._of(step, kind)
        if found is None:
            raise UserError(
                f"the step {step!r} of {self.run} is not finished; resume with: spice resume {quoted(self.run)}"
            )
        return found


def save_edited_groups(run: Path, manifest: Manifest, name: str) -> None:
    """Before a result is removed, save its groups if they were edited: names carry over to other results."""
    if name in manifest.results and any(edit.result == name for edit in read_edits(run).edits):
        Result(run, manifest, name).base.save(run / EDITED / f"{name}.parquet")


def open_result(run: Path) -> Result:
    """The current result of the run in `run`."""
    manifest = read_manifest(run)
    if manifest.current is None:
        raise UserError(f"{run} has no groups yet; finish it with: spice resume {quoted(run)}")
    return Result(run, manifest, manifest.current)


def model_folder(run: Path) -> Path:
    """The model of a run's current result (after `spice learn`, the learned one), or a model folder itself."""
    if not is_run(run):
        return run
    result = open_result(run)
    learned = result.groups.model
    if learned is None:
        return result.need(MODEL)
    if not (run / learned).exists():
        command = quoted(run)
        raise UserError(
            f"{run / learned} is missing; run spice learn {command} again, or undo it with: spice undo {command}"
        )
    return run / learned


def _saved_base(run: Path, name: str) -> Base | None:
    """What `save_edited_groups` kept; None if there is nothing."""
    file = run / EDITED / f"{name}.parquet"
    return Base.load(name, file) if file.exists() else None
