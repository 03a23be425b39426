"""What stages and `spice evaluate` leave in JSON: `heads.json`, `refined/joint.json`, `scores.json`.

Shapes: H heads, C classes, K clusters.
"""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from spice.errors import UserError
from spice.runs.artifacts import HEADS, REFINED, SCORES

_Outcome = TypeVar("_Outcome", bound="Outcome")


class Outcome(BaseModel):
    """Read as far as it is known here; what else a file holds is left alone."""

    model_config = ConfigDict(frozen=True)


class Selected(Outcome):
    """The head that was taken."""

    epoch: int
    head: int
    loss: float


class HeadsOutcome(Outcome):
    """How the heads went."""

    epochs: list[int]
    loss: list[list[float]]  # (looks, H)
    score: list[list[float]]  # (looks, H) what the selected head has least of
    selected: Selected
    good: list[int] = []  # the better half of the other heads


class Signs(Outcome):
    """What a clustering shows of itself without labels."""

    agreement: float
    common: float | None = None  # runs of an earlier version do not have it, nor the next
    chance: float | None = None
    confident: float
    loss: float
    empty: int


class JointOutcome(Outcome):
    """How joint training went."""

    loss: list[float]  # per step
    taught: list[float]  # per step, share of the images whose own prediction taught
    before: Signs
    after: Signs
    doubts: list[str]  # why its result is not used; empty where it is


class Score(Outcome):
    """How well a grouping agrees with true labels; all None where there was nothing to compare."""

    images: int
    acc: float | None = None
    balanced_acc: float | None = None
    nmi: float | None = None  # geometric normalization, as in the authors' code
    ari: float | None = None


class Confusion(Outcome):
    """Images of every class (rows) in every cluster (columns)."""

    clusters: list[int]  # (K,)
    counts: list[list[int]]  # (C, K)


class Kept(Outcome):
    """Share of all images that are trusted most, and how many of these are right; the last point is all images."""

    share: list[float]
    acc: list[float]


class HeadScores(Outcome):
    """Accuracy of every head after every epoch looked at, on the images whose clusters the run keeps."""

    images: int
    acc: list[list[float]]  # (looks, H)


class Scores(Outcome):
    """How well a run agrees with true labels. Nothing of a run but its page and figures reads this."""

    images: int
    without_label: int
    classes: list[str]  # (C,) those that some image has
    spice: Score
    reliable: Score
    kmeans: Score
    second_stage: Score | None = None  # before joint training, where that changed the answer
    confusion: Confusion
    by_reliability: Kept
    by_probability: Kept
    heads: HeadScores | None = None


def read_heads(run: Path) -> HeadsOutcome | None:
    """How the heads went; None where the file is missing, as for the other two."""
    return _read(HeadsOutcome, run / HEADS.name)


def read_joint(run: Path) -> JointOutcome | None:
    """How joint training went."""
    return _read(JointOutcome, run / REFINED.name / "joint.json")


def read_scores(run: Path) -> Scores | None:
    """How the run agrees with true labels."""
    return _read(Scores, run / SCORES.name)


def _read(kind: type[_Outcome], path: Path) -> _Outcome | None:
    if not path.exists():
        return None
    try:
        return kind.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        what = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise UserError(
            f"{path} is damaged or of another version of spice (at {what!r}); delete it, and make it again"
        ) from None
