"""The paper's figures for a run, as PNG and SVG (paper IV and Appendix A). Needs matplotlib, from the extra `figures`.

Shapes: N images, K clusters, H heads.
"""

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from spice.report.charts import some_epochs
from spice.report.colors import colors
from spice.report.content import Content, read_content
from spice.report.curves import point_at
from spice.report.figure_style import INK, OTHERS, SELECTED, STYLE, TRUE
from spice.report.picture_figures import neighbors, prototypes
from spice.report.toy_figure import toy_figure
from spice.runs import open_result
from spice.runs.records import HeadsResult
from spice.runs.scores import HeadScores

Floats = NDArray[np.float64]

# An unsure prediction over K = 8 clusters: the pseudo-label is c = 2, but the most probable cluster is k = 5.
SIMULATED = np.array([0.05, 0.10, 0.04, 0.08, 0.45, 0.12, 0.09, 0.07])
LABEL = 2  # counted from 1, as in the paper


def write_figures(run: Path, folder: Path) -> list[Path]:
    """Write every figure for which the run has the files."""
    content = read_content(open_result(run))
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with mpl.rc_context(STYLE):  # type: ignore[arg-type]  # wants every key of matplotlib's as a literal type
        for name, draw in FIGURES.items():
            figure = draw(content)
            if figure is None:
                continue
            for ending in ("png", "svg"):
                written.append(folder / f"{name}.{ending}")
                # Without a date, the same run gives the same file.
                figure.savefig(written[-1], dpi=200, metadata={"Date": None} if ending == "svg" else None)
    return written


def gradient_ratio(probs: Floats, label: int) -> Floats:
    """r_k (K,): gradient of the double-softmax loss over that of the usual one, for the pseudo-label at `label`.

    With p = softmax(a), p' = softmax(p): for k = c, p_c (1 - p'_c + sum p'p - p_c) / (1 - p_c); for the others,
    p'_k - sum p'p + p_c. The paper's closed forms (a5 to a9) drop the one-hot term, which its derivative (a2) has.
    """
    twice = np.exp(probs) / np.exp(probs).sum()  # p', (K,)
    mean, own = float((twice * probs).sum()), float(probs[label])
    ratio = twice - mean + own
    ratio[label] = own * (1 - twice[label] + mean - own) / (1 - own)
    return np.asarray(ratio, dtype=np.float64)


def double_softmax(_: Content) -> Figure:
    """Appendix A: how much the second softmax slows learning, per cluster."""
    figure = Figure(figsize=(7.2, 2.0), layout="constrained")
    places = np.arange(1, len(SIMULATED) + 1)
    single = SIMULATED - (places == LABEL)
    ratio = gradient_ratio(SIMULATED, LABEL - 1)
    predicted, gradients, ratios = figure.subplots(1, 3)
    tints = [TRUE if place == LABEL else OTHERS for place in places]
    predicted.bar(places, SIMULATED, color=tints)
    predicted.set(title=f"(a) prediction; pseudo-label c = {LABEL}", ylabel="$p_k$")
    gradients.bar(places - 0.2, single, 0.4, color=OTHERS, label="single softmax")
    gradients.bar(places + 0.2, single * ratio, 0.4, color=SELECTED, label="double softmax")
    gradients.set(title="(b) gradient of the loss", ylabel=r"$\partial\mathcal{L}\,/\,\partial a_k$")
    gradients.legend(loc="lower right")
    ratios.bar(places, ratio, color=tints)
    ratios.set(title="(c) their ratio", ylabel="$r_k$")
    for axes in (predicted, gradients, ratios):
        axes.set(xlabel="cluster $k$", xticks=places)
        axes.axhline(0, color=INK, linewidth=0.6)
    return figure


def heads(content: Content) -> Figure:
    """Head selection: the loss of every head at every epoch; after `spice evaluate`, also its ACC."""
    result = content.result
    scores = result.scores.heads if result.scores else None
    figure = Figure(figsize=(7.2 if scores else 3.5, 2.9), layout="constrained")
    panels = figure.subplots(1, 2 if scores else 1, squeeze=False)[0]
    _draw_loss(panels[0], result.heads, panel="(a) " if scores else "")
    if scores:
        _draw_accuracy(panels[1], result.heads, scores)
    for axes in panels:
        axes.set(xlabel="epoch", xticks=some_epochs(result.heads.epochs))
        # Below the axes, because lines may be anywhere inside.
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    return figure


def _draw_loss(axes: Axes, result: HeadsResult, panel: str) -> None:
    best, losses = result.selected, np.array(result.loss)  # (snapshots, H)
    axes.plot(result.epochs, losses, color=OTHERS, linewidth=0.8)
    axes.plot(result.epochs, losses[:, best.head], color=SELECTED, linewidth=1.4)
    axes.plot([best.epoch], [best.loss], "o", color=SELECTED, label=f"selected: head {best.head}, epoch {best.epoch}")
    axes.set(ylabel="loss over all images", title=f"{panel}{losses.shape[1]} heads, without labels")


def _draw_accuracy(axes: Axes, result: HeadsResult, scores: HeadScores) -> None:
    """As in the paper: the head selected after each epoch, beside the best by true labels."""
    accuracy, rank, best = np.array(scores.acc), np.array(result.score), result.selected  # (snapshots, H) each
    selected, highest = accuracy[np.arange(len(accuracy)), rank.argmin(axis=1)], accuracy.max(axis=1)  # (snapshots,)
    axes.plot(result.epochs, accuracy, color=OTHERS, linewidth=0.8)
    axes.plot(result.epochs, highest, "*", color=TRUE, markersize=7, label="best by true labels")
    axes.plot(result.epochs, selected, "s", color=SELECTED, markersize=3.5, label="selected without labels")
    final, peak = accuracy[result.epochs.index(best.epoch), best.head], int(highest.argmax())
    for epoch, value, color, name in (
        (best.epoch, final, SELECTED, "finally selected"),
        (result.epochs[peak], highest[peak], TRUE, "best of all"),
    ):
        axes.plot(epoch, value, "o", color=color, markersize=11, markerfacecolor="none", label=f"{name}: {value:.3f}")
    axes.set(ylabel="ACC", title="(b) the same heads against true labels")


def kept(content: Content) -> Figure | None:
    """Accuracy against the share of images kept, by chance and by confidence; only after `spice evaluate`."""
    scores = content.result.scores
    if scores is None:
        return None
    figure = Figure(figsize=(3.5, 2.6), layout="constrained")
    axes = figure.subplots()
    for points, name, color, line, width in (
        (scores.by_confidence, "confidence", TRUE, (0, (4, 2)), 1.1),
        (scores.by_chance, "chance", SELECTED, "solid", 1.5),
    ):
        share, accuracy = 100 * np.array(points.share), 100 * np.array(points.acc)
        axes.plot(share, accuracy, color=color, linestyle=line, linewidth=width, label=f"kept by {name}")
    if scores.reliable.images:
        point = 100 * np.array(point_at(scores.by_chance, scores.reliable.images / scores.images))
        axes.plot(*point, "o", color=SELECTED, label=rf"reliable ($r > {content.result.answer.threshold}$)")
    axes.set(xlabel="images kept (%)", ylabel="accuracy (%)", xlim=(0, 102))
    axes.legend(loc="lower left")
    return figure


def samples(content: Content) -> Figure | None:
    """All images on the map, and the reliable ones alone, colored by true class if the run was evaluated."""
    if content.points is None:
        return None
    labels, scores, figure = content.labels, content.result.scores, Figure(figsize=(7.2, 3.7), layout="constrained")
    if content.truth is not None and scores is not None:
        kind, names, title = content.truth, scores.classes, "true class"
    else:
        kind, names, title = labels.cluster, [str(number) for number in range(len(content.card_images))], "cluster"
    palette = np.array([*(color.light for color in colors(len(names))), OTHERS])  # the last: without a label
    size = float(np.clip(12_000 / len(labels.path), 0.8, 8))
    all_axes, reliable_axes = figure.subplots(1, 2)
    for axes, rows, name, score in (
        (all_axes, np.full(len(labels.path), True), "(a) all", scores and scores.spice),
        (reliable_axes, labels.reliable, "(b) reliable", scores and scores.reliable),
    ):
        x, y = content.points[rows].T
        axes.scatter(x, 1 - y, c=palette[kind[rows]], s=size, linewidths=0, rasterized=True)
        accuracy = f", ACC {score.acc:.3f}" if score and score.acc is not None else ""
        axes.set(title=f"{name}: {int(rows.sum()):,} images{accuracy}", xticks=[], yticks=[])
        axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
        axes.spines[["top", "right"]].set_visible(True)
    if len(names) <= 20:
        tints = palette[: len(names)]
        dots = [mpl.lines.Line2D([], [], marker="o", color=tint, linestyle="none", markersize=4) for tint in tints]
        columns = len(names) if title == "cluster" else 5
        figure.legend(dots, names, loc="outside lower center", ncols=columns, title=title, handletextpad=0)
    return figure


FIGURES: dict[str, Callable[[Content], Figure | None]] = {
    "prototypes": prototypes,
    "samples": samples,
    "heads": heads,
    "kept": kept,
    "neighbors": neighbors,
    "toy": lambda _: toy_figure(),
    "double_softmax": double_softmax,
}
