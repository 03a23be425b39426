"""What every step reports: one typed result per step, written and read by the same code.

Shapes: H heads, K clusters.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from spice.arrays import array_name, further_pieces
from spice.errors import UserError, field_of
from spice.files import write_text
from spice.runs.artifacts import ARTIFACTS


class StepResult(BaseModel):
    """What a step reports. Steps that only write files report nothing."""

    model_config = ConfigDict(frozen=True)


class ScanResult(StepResult):
    """The images of the source."""

    images: int
    problems: int
    skipped: dict[str, int] = {}  # the problems by reason; runs before version 0.2 have none
    copies: int
    identity: str  # hash over the content of all images


class FeaturesResult(StepResult):
    """Stage 1: how training the feature model went."""

    method: str
    network: str
    epochs: int
    alignment: list[float]  # per epoch
    uniformity: list[float]


class ViewsResult(StepResult):
    """The frozen encoder, and whether views are made of images or of features."""

    encoder: str
    size: int
    width: int
    space: Literal["images", "features"]
    precision: Literal["float32", "int8"] = "float32"


class NeighborsResult(StepResult):
    """How many nearest images are kept of every image."""

    neighbors: int
    recall: float = 1.0  # the share of the true neighbors among them, measured on a sample; 1: all pairs were compared


class CandidateCount(StepResult):
    """A plausible number of groups: a peak of the curve."""

    clusters: int
    score: float
    prominence: float  # how far the peak rises above the curve around it
    spread: float  # noise of that rise


class HowManyResult(StepResult):
    """The number of groups that was found, and the curve that it was read from."""

    clusters: int | None  # None: there are no clear groups
    candidates: list[CandidateCount]  # coarsest first
    counts: list[int]  # numbers of groups that were tried
    score: list[float]  # of each of them, mean over draws of images
    spread: list[float]  # standard deviation over these draws
    null: float  # the best score of features without groups
    drawn: int  # images in a draw
    finest_peak: int  # the number that the curve alone suggests
    communities: int  # the number that the neighbor graph alone suggests
    coarse_communities: int | None = None  # the same at half the resolution; None in runs of older versions
    fits_labels: bool  # whether labels that the user gave decided the number

    @property
    def contradictory(self) -> bool:
        """Whether curve and graph disagree by half or more."""
        low, high = sorted((self.finest_peak, self.communities))
        return high >= 1.5 * low


class TreeResult(StepResult):
    """Groups within groups."""

    leaves: int
    information: float  # between neighbors' leaves, in nats


class SelectedHead(StepResult):
    """The head that was selected."""

    head: int
    epoch: int
    loss: float


class HeadsResult(StepResult):
    """Stage 2: every head's loss each time heads were scored, and which head was selected."""

    epochs: list[int]
    loss: list[list[float]]  # (snapshots, H)
    score: list[list[float]]  # (snapshots, H) the head with the lowest score is selected
    distinct: list[list[float]]  # (snapshots, H) share of distinct images among the pseudo-labels
    selected: SelectedHead
    good: list[int]  # the better half of the other heads
    head_agreement: float | None  # mean adjusted Rand index between heads; None for one head
    learned_from: int | None = None  # images that heads learned from; None in runs of older versions: all

    @property
    def heads(self) -> int:
        """H."""
        return len(self.loss[0])


class ClusteringStats(StepResult):
    """What can be measured of a clustering without labels (`stages.joint.checks`)."""

    neighbor_agreement: float
    prior_neighbor_agreement: float
    chance_agreement: float
    confident: float
    loss: float
    empty: int


class JointResult(StepResult):
    """Stage 3: how joint training went, and whether its result is used."""

    labeled: int  # images whose labels were learned
    given: int  # of these, images that a person placed
    moved: int  # images that changed their cluster
    loss: list[float]  # per step
    taught: list[float]  # per step, the share of images whose own prediction was confident enough to learn
    before: ClusteringStats | None  # None: there was nothing to learn from
    after: ClusteringStats | None
    failed_checks: list[str]
    used: bool  # whether the labels come from this result; otherwise from stage 2


class LabelsResult(StepResult):
    """The answer, and k-means for comparison."""

    clusters: int
    neighbors: int  # N_s; reliability is the share of them in the same cluster
    threshold: float
    kmeans_reliable: int  # images whose k-means label would be reliable by the same rule
    kmeans_agreement: float  # adjusted Rand index between k-means and the answer
    head_overlap: list[float] | None  # (K,) overlap of each cluster with those of other good heads; None for one head


RESULTS: dict[str, type[StepResult]] = {
    "scan": ScanResult,
    "features": FeaturesResult,
    "encode": StepResult,
    "views": ViewsResult,
    "neighbors": NeighborsResult,
    "howmany": HowManyResult,
    "tree": TreeResult,
    "kmeans": StepResult,
    "heads": HeadsResult,
    "joint": JointResult,
    "labels": LabelsResult,
    "model": StepResult,
    "map": StepResult,
    "words": StepResult,
    "pictures": StepResult,
    "report": StepResult,
}

Found = TypeVar("Found", bound=StepResult)


class StepWarning(BaseModel, frozen=True):
    """A warning that a step gave: its class by name, and its text."""

    name: str
    text: str


class FileStamp(BaseModel, frozen=True):
    """Size and content of a file when its step was finished."""

    size: int
    hash: str


class Record(BaseModel, Generic[Found], frozen=True):
    """A finished step: `STEP.json` in its folder, written last, so that a step without one is unfinished."""

    step: str
    key: str  # hash of all that the result depends on
    seconds: float
    cpu_seconds: float  # of this process
    finished: str
    warnings: list[StepWarning] = []
    files: dict[str, FileStamp] = {}  # what the step made, relative to its folder
    result: Found

    def damaged(self, folder: Path) -> list[str]:
        """The files of the step that have changed since it wrote them; deletable files may be missing."""
        lasting = {artifact.name for artifact in ARTIFACTS if artifact.step == self.step and not artifact.deletable}
        there = {path: folder / path for path in self.files if _made_as(path) in lasting or (folder / path).exists()}
        return [path for path, file in there.items() if not file.is_file() or _stamp(file) != self.files[path]]

    def is_damaged(self, folder: Path, name: str) -> bool:
        """Whether the file, or a file in the folder, that the step made under this name has changed or is missing."""
        ours = {path: stamp for path, stamp in self.files.items() if _made_as(path) == name}
        return any(_size(folder / path) is None or _stamp(folder / path) != stamp for path, stamp in ours.items())

    def is_intact(self, folder: Path, names: Collection[str]) -> bool:
        """Whether every file that the step made under one of these names is still there, at its size."""
        ours = {path: stamp for path, stamp in self.files.items() if _made_as(path) in names}
        return all(_size(folder / path) == stamp.size for path, stamp in ours.items())


def damaged_files(run: Path, folders: Mapping[str, str]) -> list[Path]:
    """The files of a result that are missing or have changed. The report is not checked, because edits rewrite it."""
    checked = [(run / folder, read_record(run / folder, step)) for step, folder in folders.items() if step != "report"]
    return [folder / path for folder, record in checked if record is not None for path in record.damaged(folder)]


def stamp_files(folder: Path, names: Iterable[str]) -> dict[str, FileStamp]:
    """The stamps of the files and folders called `names`: of every piece of an array, and of every file in a folder."""
    made = [folder / name for name in names]
    found = [path for one in made for path in (one, *further_pieces(one), *one.rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): _stamp(path) for path in sorted(found)}


def _made_as(path: str) -> str:
    """The file, array or folder that a file of a step belongs to."""
    return array_name(path.split("/", maxsplit=1)[0])


def _stamp(path: Path) -> FileStamp:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))
    return FileStamp(size=path.stat().st_size, hash=digest.hexdigest())


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


def write_record(folder: Path, record: Record[StepResult]) -> None:
    """Mark the step as finished."""
    # `serialize_as_any`: the result as its own class, not as StepResult.
    write_text(folder / f"{record.step}.json", record.model_dump_json(indent=1, serialize_as_any=True) + "\n")


def read_record(folder: Path, step: str) -> Record[StepResult] | None:
    """The record of a step; None if it is not finished."""
    kind: type[Record[StepResult]] = Record.__class_getitem__(RESULTS[step])  # type: ignore[assignment]
    return read_json(folder / f"{step}.json", kind, "delete it and resume the run")


Model = TypeVar("Model", bound=BaseModel)


def read_json(path: Path, kind: type[Model], advice: str) -> Model | None:
    """What a file holds; None if there is none, and a UserError with advice if it is damaged."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValidationError as error:
        where = field_of(error)
        raise UserError(f"{path} is damaged, or from another version of spice (at {where!r}); {advice}") from None
