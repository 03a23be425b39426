"""How well a result agrees with true labels: `scores.json`, which `spice evaluate` writes and the report shows.

Shapes: H heads, C classes, K clusters.
"""

from pathlib import Path

from pydantic import BaseModel

from spice.runs.records import read_json


class Score(BaseModel, frozen=True):
    """How well a grouping agrees with true labels; all None if there was nothing to compare."""

    images: int
    acc: float | None = None
    balanced_acc: float | None = None
    nmi: float | None = None
    ari: float | None = None


class Confusion(BaseModel, frozen=True):
    """Images of every class (rows) in every cluster (columns)."""

    clusters: list[int]  # (K,)
    counts: list[list[int]]  # (C, K)


class AccuracyCurve(BaseModel, frozen=True):
    """Accuracy by the share of images kept, the most trusted first; the last point is all images."""

    share: list[float]
    acc: list[float]


class HeadScores(BaseModel, frozen=True):
    """Accuracy of every head whenever heads were scored, on the images whose clusters the run keeps."""

    images: int
    acc: list[list[float]]  # (snapshots, H)


class Scores(BaseModel, frozen=True):
    """How well a run agrees with true labels. Only its report and figures read this."""

    images: int
    without_label: int
    classes: list[str]  # (C,) that occur
    spice: Score  # the program's answer, before any edit
    reliable: Score
    kmeans: Score
    edited: Score | None = None  # the groups after a person's edits, without images in no group; None: no edits
    second_stage: Score | None = None  # before joint training, if that changed the answer
    confusion: Confusion
    by_chance: AccuracyCurve
    by_confidence: AccuracyCurve
    heads: HeadScores | None = None


def read_scores(path: Path) -> Scores | None:
    """What `spice evaluate` wrote; None if it has not been run."""
    return read_json(path, Scores, "delete it and evaluate again")
