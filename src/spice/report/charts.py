"""Charts as SVG in the page itself: no script draws them, colors come from the page's style."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BINS = 20


class Bar(NamedTuple):
    """One bar of a histogram, in the units of its SVG (100 x 32)."""

    x: float
    y: float
    width: float
    height: float
    title: str
    reliable: bool


def histogram(reliability: NDArray[np.float32], reliable: NDArray[np.bool_]) -> list[Bar]:
    """How many images have which reliability; the reliable ones are bars of their own on the right."""
    edges = np.linspace(0, 1, BINS + 1)
    # From the right: an image of reliability 1 belongs to the last bin, and none falls between two.
    place = np.minimum((reliability * BINS).astype(np.int64), BINS - 1)
    trusted = np.bincount(place[reliable], minlength=BINS)
    others = np.bincount(place[~reliable], minlength=BINS)
    top = max(1, int((trusted + others).max()))
    bars = []
    for number in range(BINS):
        said = f"{edges[number]:.2f} to {edges[number + 1]:.2f}"
        base = 32.0
        for count, is_reliable in ((int(others[number]), False), (int(trusted[number]), True)):
            if count:
                height = 32 * count / top
                base -= height
                kind = "reliable" if is_reliable else "not reliable"
                bars.append(
                    Bar(number * 5 + 0.4, round(base, 2), 4.2, round(height, 2), f"{said}: {count} {kind}", is_reliable)
                )
    return bars


class Line(NamedTuple):
    """One head's loss over the epochs."""

    head: int
    points: str  # of an SVG polyline
    selected: bool


class LineChart(NamedTuple):
    """Lines over epochs or steps, in the units of an SVG of WIDTH x HEIGHT."""

    lines: list[Line]
    horizontal: list[tuple[float, str]]  # x and its text
    vertical: list[tuple[float, str]]  # y and its text
    mark: tuple[float, float]  # the selected head at the selected epoch


WIDTH, HEIGHT = 640.0, 260.0
_MOST_POINTS = 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 16.0, 14.0, 30.0


def curve(values: list[float]) -> LineChart:
    """One value per epoch or step; of very many, the means of stretches."""
    stretches = np.array_split(np.array(values), min(_MOST_POINTS, len(values)))
    ends = np.cumsum([len(stretch) for stretch in stretches]).tolist()
    means = [[float(stretch.mean())] for stretch in stretches]
    return loss_chart(ends, means, head=0, epoch=ends[-1])


def loss_chart(epochs: list[int], losses: list[list[float]], *, head: int, epoch: int) -> LineChart:
    """`losses` is (looks, heads)."""
    table = np.array(losses, dtype=np.float64)  # (E, H)
    low, high = float(table.min()), float(table.max())
    pad = max(1e-6, (high - low) * 0.06)
    first, last = min(epochs), max(epochs)

    def x_of(value: float) -> float:
        share = (value - first) / (last - first) if last > first else 0.5
        return round(_LEFT + share * (WIDTH - _LEFT - _RIGHT), 1)

    def y_of(value: float) -> float:
        share = (value - low + pad) / (high - low + 2 * pad)
        return round(HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM), 1)

    def points(column: int) -> str:
        pairs = zip(epochs, table[:, column].tolist(), strict=True)
        return " ".join(f"{x_of(when)},{y_of(loss)}" for when, loss in pairs)

    lines = [Line(number, points(number), number == head) for number in range(table.shape[1])]
    lines.sort(key=lambda line: line.selected)  # the selected one is drawn last, over the others
    shown = epochs if len(epochs) <= 10 else epochs[:: -(-len(epochs) // 10)]
    return LineChart(
        lines,
        [(x_of(when), str(when)) for when in shown],
        [(y_of(value), f"{value:.3f}") for value in np.linspace(low, high, 4).tolist()],
        (x_of(epoch), y_of(float(table[epochs.index(epoch), head]))),
    )
