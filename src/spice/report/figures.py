"""The paper's figures for a run, as PNG and SVG (paper IV and Appendix A). Needs matplotlib, from the extra `figures`.

Shapes: N images, K clusters.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from spice.errors import UserError
from spice.report.chosen import with_attention
from spice.report.colors import colors
from spice.report.content import Content, read_content

Floats = NDArray[np.float64]

# An unsure prediction over K = 8 clusters whose pseudo-label is c = 2, and whose false favorite is k = 5.
SIMULATED = np.array([0.05, 0.10, 0.04, 0.08, 0.45, 0.12, 0.09, 0.07])
LABEL = 2  # counted from 1, as in the paper


def write_figures(run: Path, folder: Path) -> list[Path]:
    """Every figure that the run has the files for."""
    content = read_content(run)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, draw in FIGURES.items():
        figure = draw(content)
        if figure is None:
            continue
        for ending in ("png", "svg"):
            written.append(folder / f"{name}.{ending}")
            # No date inside: the same run gives the same file.
            figure.savefig(written[-1], dpi=150, metadata={"Date": None} if ending == "svg" else None)
    if not written:
        raise UserError(f"{run} has none of the files that figures are made of; finish it with: spice resume {run}")
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
    """Appendix A: how far the second softmax slows learning, per cluster."""
    figure = Figure(figsize=(9, 3), layout="constrained")
    for axes, values, title in zip(
        figure.subplots(1, 2),
        (SIMULATED, gradient_ratio(SIMULATED, LABEL - 1)),
        (f"probability, pseudo-label c = {LABEL}", "gradient: double over single softmax"),
        strict=True,
    ):
        colors = ["#a8420f" if k == LABEL - 1 else "#5f5b55" for k in range(len(values))]
        axes.bar(np.arange(1, len(values) + 1), values, color=colors)
        axes.set(title=title, xlabel="k")
    return figure


def heads(content: Content) -> Figure | None:
    """Loss of every head; the selected one marked."""
    if content.heads is None:
        return None
    best, figure = content.heads.selected, Figure(figsize=(5, 3.4), layout="constrained")
    axes = figure.subplots()
    losses = np.array(content.heads.loss)  # (looks, heads)
    axes.plot(content.heads.epochs, losses, color="#5f5b55", alpha=0.35, linewidth=1)
    axes.plot(content.heads.epochs, losses[:, best.head], color="#a8420f", linewidth=2)
    axes.plot([best.epoch], [best.loss], "o", color="#a8420f")
    axes.set(xlabel="epoch", ylabel="loss", title=f"head {best.head} selected after epoch {best.epoch}")
    return figure


def samples(content: Content) -> Figure | None:
    """All images on the map beside the reliable ones alone."""
    if content.points is None:
        return None
    labels, figure = content.labels, Figure(figsize=(9, 4.6), layout="constrained")
    everything = np.ones(len(labels.path), dtype=np.bool_)
    chosen = ((everything, "all"), (labels.reliable, "reliable"))
    palette = np.array([color.light for color in colors(len(content.account.clusters))])  # (K,)
    limits = (-0.03, 1.03)
    for axes, (rows, title) in zip(figure.subplots(1, 2), chosen, strict=True):
        x, y = content.points[rows].T
        axes.scatter(x, 1 - y, c=palette[labels.cluster[rows]], s=5, linewidths=0, rasterized=True)
        heading = f"{title}: {int(rows.sum()):,} images"
        axes.set(title=heading, xticks=[], yticks=[], xlim=limits, ylim=limits, aspect="equal")
    return figure


def prototypes(content: Content) -> Figure | None:
    """The images nearest to each center, with attention maps where the encoder has them."""
    rows = with_attention(content.chosen)
    shown = [(number, row) for number, here in enumerate(rows) for row in here.tolist()]
    found = [(number, row) for number, row in shown if (content.pictures / f"image-{row}.jpg").exists()]
    if not found:
        return None
    across = max(len(here) for here in rows)
    figure = Figure(figsize=(2.0 * across, 1.05 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), 2 * across, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for number, row in found:
        place = rows[number].tolist().index(row)
        for offset, kind in enumerate(("image", "attention")):
            path = content.pictures / f"{kind}-{row}.jpg"
            if path.exists():
                grid[number, 2 * place + offset].imshow(np.asarray(Image.open(path)))
    for number, line in enumerate(grid):
        line[0].set_title(str(number), fontsize=8, loc="left", pad=1)
    return figure


FIGURES: dict[str, Callable[[Content], Figure | None]] = {
    "prototypes": prototypes,
    "samples": samples,
    "heads": heads,
    "double_softmax": double_softmax,
}
