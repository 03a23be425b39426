"""Explains why an image is in its cluster, from the files of a finished run alone."""

from collections import Counter
from pathlib import Path

import numpy as np
from pydantic import BaseModel

from spice.arrays import open_array
from spice.errors import UserError
from spice.runs.artifacts import PROBABILITIES
from spice.runs.checks import Checks
from spice.runs.labels import Labels
from spice.runs.result import Result, open_result

SHOWN_NEIGHBORS = 10
SHOWN_CLUSTERS = 3


class Neighbor(BaseModel, frozen=True):
    """One of the nearest images."""

    path: str
    cluster: int
    group: int  # after all edits; -1: none
    similarity: float


class ImageExplanation(BaseModel, frozen=True):
    """Everything that a run knows about one image."""

    path: str
    cluster: int
    group: int  # after all edits; -1: none
    name: str | None  # of that group
    by_person: bool  # whether a person put it there
    chance: float  # that this is the right cluster, corrected by a check by hand if there was one
    confidences: dict[int, float]  # the head's softmax for the most likely clusters
    reliable: bool
    reliability: float
    threshold: float
    neighbors: int  # how many of the nearest images reliability counts
    agreeing: int  # of these, how many are in the same cluster
    others: dict[int, int]  # and how many are in each other cluster
    prototype_rank: int  # 0 is the most typical image of the cluster
    cluster_size: int
    outlier: bool
    duplicate_of: str | None
    copies: list[str]
    nearest: list[Neighbor]


def explain_image(folder: Path, image: str) -> ImageExplanation:
    """Explain `image`: a path as in labels.csv, a path on disk, or a file name that only one image has."""
    result = open_result(folder)
    labels, groups = result.labels, result.groups
    row = find_row(labels, image, source=result.manifest.source)
    counted, threshold = result.answer.neighbors, result.answer.threshold
    neighbors, similarities = result.neighbors[row], result.similarities[row]  # (S,), (S,)
    probabilities = open_array(result.need(PROBABILITIES))[row]  # (K,)
    cluster = int(labels.cluster[row])
    votes = Counter(labels.cluster[neighbors[:counted]].tolist())
    return ImageExplanation(
        path=labels.path[row],
        cluster=cluster,
        group=int(groups.shown[row]),
        name=groups.names.get(int(groups.shown[row])),
        by_person=bool(groups.by_person[row]),
        chance=float(Checks(result).chances[row]),
        confidences={
            int(k): float(probabilities[k]) for k in np.argsort(-probabilities, kind="stable")[:SHOWN_CLUSTERS]
        },
        reliable=bool(labels.reliable[row]),
        reliability=float(labels.reliability[row]),
        threshold=threshold,
        neighbors=counted,
        agreeing=votes.pop(cluster, 0),
        others=dict(sorted(votes.items(), key=lambda vote: (-vote[1], vote[0]))),
        prototype_rank=int(labels.prototype_rank[row]),
        cluster_size=int((labels.cluster == cluster).sum()),
        outlier=bool(labels.outlier[row]),
        duplicate_of=labels.duplicate_of[row] or None,
        copies=_copies(result, row),
        nearest=[
            Neighbor(
                path=labels.path[other],
                cluster=int(labels.cluster[other]),
                group=int(groups.shown[other]),
                similarity=float(similarity),
            )
            for other, similarity in zip(neighbors[:SHOWN_NEIGHBORS], similarities, strict=False)
        ],
    )


def find_row(labels: Labels, image: str, *, source: str | None) -> int:
    """The row of an image, by its path in the table, its path on disk, or the end of its path."""
    for name in (image, _inside(image, source)):
        if name in labels.path:
            return labels.path.index(name)
    ending = "/" + image.removeprefix("./")
    matches = [row for row, path in enumerate(labels.path) if f"/{path}".endswith(ending)]
    if not matches:
        raise UserError(f"{image} is not one of the {len(labels.path):,} images of this run (see labels.csv)")
    if len(matches) > 1:
        some = ", ".join(labels.path[row] for row in matches[:3])
        raise UserError(f"{len(matches)} images match {image} ({some}, ...); give a longer path")
    return matches[0]


def _inside(image: str, source: str | None) -> str | None:
    if source is None or not Path(image).exists():
        return None
    path, root = Path(image).resolve(), Path(source).resolve()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _copies(result: Result, row: int) -> list[str]:
    hashes = result.hashes
    return [path for other, path in enumerate(result.labels.path) if hashes[other] == hashes[row] and other != row]
