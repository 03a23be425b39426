"""Charts as inline SVG, without scripts; colors come from the style sheet of the page."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spice.runs.records import HeadsResult

BINS = 20
WIDTH, HEIGHT = 560.0, 276.0
# Margins for the text beside the axes, which is larger on a phone.
LEFT, RIGHT, TOP, BOTTOM = 66.0, 34.0, 32.0, 52.0
_MAX_POINTS = 200


class Bar(NamedTuple):
    """One bar of a histogram, in the units of its SVG (100 x 32)."""

    x: float
    y: float
    width: float
    height: float
    title: str
    reliable: bool


def histogram(reliability: NDArray[np.float32], reliable: NDArray[np.bool_]) -> list[Bar]:
    """Images by reliability, the bars of reliable images stacked on those of the others."""
    place = np.minimum((reliability * BINS).astype(np.int64), BINS - 1)  # reliability 1 belongs to the last bin
    counts = np.stack([np.bincount(place[kind], minlength=BINS) for kind in (~reliable, reliable)])  # (2, BINS)
    heights = 32 * counts / max(1, counts.sum(axis=0).max())
    tops = 32 - heights.cumsum(axis=0)
    return [
        Bar(
            x=5 * place + 0.4,
            y=round(float(tops[kind, place]), 2),
            width=4.2,
            height=round(float(heights[kind, place]), 2),
            title=f"{place / BINS:.2f} to {(place + 1) / BINS:.2f}: {counts[kind, place]} {name}",
            reliable=bool(kind),
        )
        for place in range(BINS)
        for kind, name in enumerate(("not reliable", "reliable"))
        if counts[kind, place]
    ]


class Series(NamedTuple):
    """One line of a chart, in the units of the data. `style`: a class of the style sheet (plain, selected or other)."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    style: str = "selected"


class Mark(NamedTuple):
    """A highlighted point."""

    x: float
    y: float
    name: str


class Line(NamedTuple):
    """One line in the units of the SVG."""

    name: str
    points: str
    style: str


class Tick(NamedTuple):
    """A place on an axis, in the units of the SVG, and its text."""

    place: float
    text: str


class LineChart(NamedTuple):
    """A chart in the units of an SVG of WIDTH x HEIGHT."""

    lines: list[Line]
    marks: list[Mark]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    x_title: str
    y_title: str


def line_chart(
    series: Sequence[Series],
    *,
    x_title: str,
    y_title: str,
    marks: Sequence[Mark] = (),
    percent: bool = False,
    x_ticks: Sequence[int] = (),
    maximum: float = math.inf,
) -> LineChart:
    """Lines over one pair of axes.

    Args:
        percent: both axes show percentages, and the x axis goes from 0 to 100; otherwise x counts epochs or steps.
        x_ticks: round numbers, if not given.
        maximum: upper end of the y axis, if the values have one.
    """
    thin = [_thinned(one) for one in series]
    x_axis = _Axis([0.0, 1.0] if percent else [value for one in thin for value in one.x], LEFT, WIDTH - RIGHT)
    y_axis = _Axis([value for one in thin for value in one.y], HEIGHT - BOTTOM, TOP, room=0.06, maximum=maximum)

    def points(one: Series) -> str:
        return " ".join(f"{x_axis.place(x)},{y_axis.place(y)}" for x, y in zip(one.x, one.y, strict=True))

    return LineChart(
        [Line(one.name, points(one), one.style) for one in thin],
        [Mark(x_axis.place(mark.x), y_axis.place(mark.y), mark.name) for mark in marks],
        [Tick(x_axis.place(value), str(value)) for value in x_ticks]
        or x_axis.ticks(6, percent=percent, smallest_step=0 if percent else 1),
        y_axis.ticks(5, percent=percent),
        x_title,
        y_title,
    )


def curve(values: Sequence[float], *, x_title: str, y_title: str) -> LineChart:
    """One value per epoch or step."""
    return line_chart([Series("", range(1, len(values) + 1), values)], x_title=x_title, y_title=y_title)


def head_chart(
    heads: HeadsResult, values: Sequence[Sequence[float]], *, y_title: str, maximum: float = math.inf
) -> LineChart:
    """One line per head from values (snapshots, H), with the selected head and its epoch highlighted."""
    best, table = heads.selected, np.array(values, dtype=np.float64)
    order = sorted(range(heads.heads), key=lambda number: number == best.head)  # the selected head is drawn last
    series = [
        Series(
            f"head {number}", heads.epochs, table[:, number].tolist(), "selected" if number == best.head else "plain"
        )
        for number in order
    ]
    value = float(table[heads.epochs.index(best.epoch), best.head])
    mark = Mark(best.epoch, value, f"head {best.head}, selected after epoch {best.epoch}: {value:.4f}")
    ticks = some_epochs(heads.epochs)
    return line_chart(series, x_title="epoch", y_title=y_title, marks=[mark], x_ticks=ticks, maximum=maximum)


def some_epochs(epochs: Sequence[int]) -> Sequence[int]:
    """At most ten of the epochs, so that their labels fit side by side."""
    return epochs[:: -(-len(epochs) // 10)]


class _Axis:
    """Converts values to places in the SVG."""

    def __init__(
        self, values: Sequence[float], start: float, end: float, *, room: float = 0.0, maximum: float = math.inf
    ) -> None:
        low, high = min(values), max(values)
        spare = room * (high - low) if high > low else max(abs(low) * 0.05, 1e-6)
        self.low, self.high, self.start, self.end = low - spare, min(high + spare, maximum), start, end

    def place(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, most: int, *, percent: bool, smallest_step: float = 0.0) -> list[Tick]:
        """At most `most` round numbers."""
        step = max(_round_step((self.high - self.low) / most), smallest_step)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        form = f".{max(0, digits - 2)}%" if percent else f".{digits}f"
        numbers = range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)
        return [Tick(self.place(number * step), format(number * step, form)) for number in numbers]


def _round_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def _thinned(series: Series) -> Series:
    """At most 200 points, each the mean of a stretch of the line, placed at its end."""
    if len(series.x) <= _MAX_POINTS:
        return series
    x, y = (np.array_split(np.array(values), _MAX_POINTS) for values in (series.x, series.y))
    return series._replace(x=[float(part[-1]) for part in x], y=[float(part.mean()) for part in y])
