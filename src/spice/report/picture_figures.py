"""Figures made of pictures: prototypes, and neighbors that show something else (paper IV, Fig. 1a).

Shapes: N images, D feature width, K clusters, S neighbors.
"""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from PIL import Image

from spice.arrays import open_array
from spice.report.content import Content
from spice.report.figure_style import SELECTED, TRUE
from spice.runs.artifacts import FEATURES, PROBABILITIES, REFINED_FEATURES
from spice.trust.vectors import unit_length

Rows = NDArray[np.int64]
PROTOTYPES = 3  # of a cluster, as in the paper
NEIGHBORS, QUERIES = 7, 6
_PICTURE, _TILE, _NAME = 128, 134, 90  # pixels: a picture, a picture with its gap, room for a cluster's number
_CHUNK = 16_384


def prototypes(content: Content) -> Figure | None:
    """The three images nearest to each center, each with its attention map if there is one."""
    rows = nearest_to_centers(content)
    if content.sheets is None and not any(_pictures(content, row) for row in rows.ravel().tolist()):
        return None
    kinds = 2 if any(len(_pictures(content, row)) > 1 for row in rows.ravel().tolist()) else 1
    wide = kinds * rows.shape[1]  # pictures of a cluster
    blocks = max(1, min(len(rows), 12 // wide))  # clusters side by side
    lines = -(-len(rows) // blocks)
    sheet = np.full((lines * _TILE, blocks * (wide * _TILE + _NAME), 3), 255, dtype=np.uint8)
    figure, axes = _canvas(sheet)
    for number, here in enumerate(rows.tolist()):
        left, top = number % blocks * (wide * _TILE + _NAME) + _NAME, number // blocks * _TILE
        axes.text(left - 12, top + _TILE / 2, str(number), ha="right", va="center", fontweight="bold")
        for place, row in enumerate(here):
            shown = [_pixels(path) for path in _pictures(content, row)] or [_from_sheet(content, row)]
            for offset, pixels in enumerate(shown):
                side = left + (place * kinds + offset) * _TILE
                sheet[top : top + _PICTURE, side : side + _PICTURE] = pixels
    axes.imshow(sheet)
    return figure


def nearest_to_centers(content: Content) -> Rows:
    """The images nearest, by cosine, to the center of each cluster, whatever cluster they are in: (K, 3).

    A center is the mean feature of the N / K most confident images (III-B), over the whole collection.
    """
    result = content.result
    probs = open_array(result.need(PROBABILITIES))  # (N, K)
    features = open_array(result.need(REFINED_FEATURES if result.refined else FEATURES))  # (N, D)
    images, clusters = probs.shape
    count = max(1, images // clusters)
    confident = (np.argsort(-probs[:, cluster], kind="stable")[:count] for cluster in range(clusters))
    centers = unit_length(np.stack([features[np.sort(rows)].mean(axis=0) for rows in confident]))  # (K, D)
    parts = [unit_length(features[start : start + _CHUNK]) @ centers.T for start in range(0, images, _CHUNK)]
    near = np.argsort(-np.concatenate(parts), axis=0, kind="stable")  # (N, K)
    return near[: min(PROTOTYPES, images)].T


def neighbors(content: Content) -> Figure | None:
    """Images whose nearest images are mostly of another true class or group."""
    if content.sheets is None:
        return None
    kind, names = _kinds(content)
    queries = among_other_kinds(content.result.neighbors, kind)
    if not len(queries):
        return None
    near = content.result.neighbors[queries, :NEIGHBORS]
    sheet = np.full((len(queries) * (_TILE + 30), (1 + near.shape[1]) * _TILE + 24, 3), 255, dtype=np.uint8)
    figure, axes = _canvas(sheet)
    for line, query in enumerate(queries.tolist()):
        top = line * (_TILE + 30) + 4
        for place, row in enumerate([query, *near[line].tolist()]):
            left = place * _TILE + (24 if place else 0) + 2
            sheet[top : top + _PICTURE, left : left + _PICTURE] = _from_sheet(content, row)
            same = kind[row] == kind[query]
            frame = Rectangle((left, top), _PICTURE, _PICTURE, fill=False, edgecolor=SELECTED if same else TRUE)
            frame.set(linewidth=1.6 if place else 0)
            axes.add_patch(frame)
            text = names[kind[row]] if kind[row] >= 0 else "no label"
            axes.text(left + _PICTURE / 2, top + _PICTURE + 4, text[:18], ha="center", va="top", fontsize=6)
    axes.imshow(sheet)
    return figure


def among_other_kinds(near: NDArray[np.integer], kind: NDArray[np.integer]) -> Rows:
    """For at most six kinds, the image with the fewest of its own kind among its seven nearest.

    Images whose neighbors are mostly of their own kind are left out, as are images of no kind (-1).
    """
    nearest = near[:, :NEIGHBORS]
    same = (kind[nearest] == kind[:, None]).mean(axis=1)  # (N,)
    same[kind < 0] = 1.0
    order = np.argsort(same, kind="stable")
    _, first = np.unique(kind[order], return_index=True)
    best = order[np.sort(first)]  # one of each kind, the worst first
    return np.asarray(best[same[best] < 0.5][:QUERIES], dtype=np.int64)


def _kinds(content: Content) -> tuple[NDArray[np.int64], list[str]]:
    """The true class of each image (N,), or its group if the run was not evaluated, and the names of these."""
    if content.truth is not None and content.result.scores is not None:
        return content.truth.astype(np.int64), content.result.scores.classes
    return content.labels.cluster.astype(np.int64), [f"group {number}" for number in range(len(content.card_images))]


def _canvas(sheet: NDArray[np.uint8]) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.2, 7.2 * sheet.shape[0] / sheet.shape[1]))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    return figure, axes


def _pictures(content: Content, row: int) -> list[Path]:
    """The picture of an image and its attention map, if they exist."""
    return [path for kind in ("image", "attention") if (path := content.pictures / f"{kind}-{row}.jpg").exists()]


def _from_sheet(content: Content, row: int) -> NDArray[np.uint8]:
    """The small picture of an image; white if it has none."""
    picture = content.small_picture(row)
    return _fitted(picture) if picture else np.full((_PICTURE, _PICTURE, 3), 255, dtype=np.uint8)


def _pixels(path: Path) -> NDArray[np.uint8]:
    with Image.open(path) as picture:
        return _fitted(picture)


def _fitted(picture: Image.Image) -> NDArray[np.uint8]:
    # Small originals keep their square pixels.
    how = Image.Resampling.NEAREST if picture.width < 64 else Image.Resampling.LANCZOS
    return np.asarray(picture.convert("RGB").resize((_PICTURE, _PICTURE), how))
