"""The paper's toy example of prototype pseudo-labeling as a figure: ten images, three clusters (III-B).

Shapes: M = 10 images, K = 3 clusters, T = 3 images for each.
"""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from numpy.typing import NDArray

from spice.report.figure_style import INK, OTHERS

Floats = NDArray[np.float64]

PROBS = np.array([
    [0.90, 0.10, 0.00],
    [0.20, 0.50, 0.30],
    [0.50, 0.20, 0.30],
    [0.20, 0.70, 0.10],
    [0.10, 0.80, 0.10],
    [0.10, 0.30, 0.60],
    [0.00, 0.10, 0.90],
    [0.10, 0.10, 0.80],
    [0.10, 0.20, 0.70],
    [0.45, 0.55, 0.00],
])  # fmt: skip
_ANGLES, _LENGTHS = [0, 10, 20, 40, 50, 60, 90, 100, 110, 30], [9, 7, 8, 9, 7.5, 9.5, 9, 7.5, 8.5, 9.5]
FEATURES = np.stack([trig(np.deg2rad(_ANGLES)) * _LENGTHS for trig in (np.cos, np.sin)], axis=1)  # (M, 2)
_COLORS = ("#268676", "#1132a0", "#ba4e25")


class Toy(NamedTuple):
    """The steps of the example."""

    confident: NDArray[np.int64]  # (K, T) images that a prototype is the mean of
    prototypes: Floats  # (K, 2)
    overlap: NDArray[np.int64]  # (K, T) images that get the label, nearest first
    once: list[list[int]]  # the same without overlap: no image gets two labels


def toy() -> Toy:
    """The E-step of Algorithm 1 on the example. A test compares it with `core.prototype_labels`."""
    images, clusters = PROBS.shape
    count = images // clusters
    confident = np.argsort(-PROBS.T, axis=1, kind="stable")[:, :count]
    prototypes = FEATURES[confident].mean(axis=1)
    similarity = _unit(prototypes) @ _unit(FEATURES).T  # (K, M)
    nearest = np.argsort(-similarity, axis=1, kind="stable")[:, :count]
    once, free = [list[int]() for _ in range(clusters)], np.full(images, True)
    for pair in np.argsort(-similarity, axis=None, kind="stable").tolist():
        cluster, image = divmod(pair, images)
        if free[image] and len(once[cluster]) < count:
            once[cluster].append(image)
            free[image] = False
    return Toy(confident, prototypes, nearest, once)


def toy_figure() -> Figure:
    """(a) probabilities and the most confident images; (b) prototypes, and the images that get their labels."""
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    table, plane = figure.subplots(1, 2, width_ratios=[1, 2.1])
    found = toy()
    _draw_probs(table, found)
    _draw_plane(plane, found)
    return figure


def _draw_probs(axes: Axes, found: Toy) -> None:
    images, clusters = PROBS.shape
    for image in range(images):
        for cluster in range(clusters):
            chosen = image in found.confident[cluster]
            tint = _COLORS[cluster] if chosen else "none"
            axes.add_patch(Ellipse((cluster, image), 0.8, 0.84, facecolor=tint, edgecolor="none"))
            text = f"{PROBS[image, cluster]:.2f}"
            axes.text(cluster, image, text, ha="center", va="center", color="white" if chosen else INK)
    axes.set(xlim=(-0.6, clusters - 0.4), ylim=(images - 0.4, -0.6), title="(a) the top 3 of each cluster")
    axes.set_xticks(range(clusters), [f"cluster {cluster + 1}" for cluster in range(clusters)])
    axes.set_yticks(range(images), [str(image + 1) for image in range(images)])
    axes.set(ylabel="image")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def _draw_plane(axes: Axes, found: Toy) -> None:
    for cluster, color in enumerate(_COLORS):
        center = found.prototypes[cluster]
        for image in found.confident[cluster]:
            axes.plot(*zip(center, FEATURES[image], strict=True), color=color, linewidth=0.8, zorder=1)
        axes.plot(*center, "*", color=color, markersize=13, zorder=4)
        axes.add_patch(_around(found.overlap[cluster], color, "solid"))
        if set(found.once[cluster]) != set(found.overlap[cluster].tolist()):
            axes.add_patch(_around(np.array(found.once[cluster]), color, (0, (3, 2))))
    often = np.bincount(found.overlap.ravel(), minlength=len(PROBS))
    axes.plot(*FEATURES.T, "o", color=INK, markersize=5, zorder=3)
    axes.plot(*FEATURES[often == 0].T, "o", color=OTHERS, markersize=5, zorder=3)
    for image, place in enumerate(FEATURES):
        name = f"{image + 1}" + (" (no label)" if often[image] == 0 else " (two labels)" if often[image] > 1 else "")
        axes.annotate(name, place, (5, 4), textcoords="offset points")
    axes.set(title="(b) prototypes (stars) and their 3 nearest; dashed: without overlap", aspect="equal")
    axes.set(xticks=[], yticks=[], xlim=(-5, 12.5), ylim=(-1.8, 11))
    axes.spines[["top", "right"]].set_visible(True)


def _around(images: NDArray[np.int64], color: str, line: str | tuple[int, tuple[int, int]]) -> Ellipse:
    """An ellipse around some images, along their main direction."""
    points = FEATURES[images]
    center = points.mean(axis=0)
    _, _, directions = np.linalg.svd(points - center)
    along, across = np.abs((points - center) @ directions.T).max(axis=0)
    angle = float(np.degrees(np.arctan2(directions[0, 1], directions[0, 0])))
    wide, high = 2.5 * along + 1.2, 2.9 * across + 1.4
    return Ellipse(
        (float(center[0]), float(center[1])), wide, high, angle=angle, fill=False, edgecolor=color, linestyle=line
    )


def _unit(rows: Floats) -> Floats:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
