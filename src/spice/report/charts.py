"""Charts as SVG in the page itself: no script draws them, colors come from the page's style."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BINS = 20
WIDTH, HEIGHT = 560.0, 276.0
# Room for what is written beside the axes, in the larger letters of a phone too.
LEFT, RIGHT, TOP, BOTTOM = 66.0, 34.0, 32.0, 52.0
_MOST_POINTS = 200


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


class Series(NamedTuple):
    """One line of a chart in its own units. The look is a class of the page's style: plain, selected or other."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    look: str = "selected"


class Mark(NamedTuple):
    """A point that stands out."""

    x: float
    y: float
    name: str
    look: str = "selected"


class Line(NamedTuple):
    """One line in the units of the SVG."""

    name: str
    points: str
    look: str


class Tick(NamedTuple):
    """A place on an axis, in the units of the SVG, and its text."""

    place: float
    text: str


class LineChart(NamedTuple):
    """A chart in the units of an SVG of WIDTH x HEIGHT."""

    lines: list[Line]
    marks: list[Mark]
    across: list[Tick]
    up: list[Tick]
    x_title: str
    y_title: str


def line_chart(
    series: Sequence[Series],
    *,
    x_title: str,
    y_title: str,
    marks: Sequence[Mark] = (),
    share: bool = False,
    at: Sequence[int] = (),
    top: float = math.inf,
) -> LineChart:
    """Lines over one pair of axes.

    Args:
        share: both axes are written as percentages, and the lower one is whole.
        at: where the lower axis is marked; round numbers, if it does not say.
        top: what no value can exceed.
    """
    thin = [_thinned(one) for one in series]
    across = _Axis([0.0, 1.0] if share else [value for one in thin for value in one.x], LEFT, WIDTH - RIGHT)
    up = _Axis([value for one in thin for value in one.y], HEIGHT - BOTTOM, TOP, room=0.06, top=top)
    return LineChart(
        [Line(one.name, _points(one, across, up), one.look) for one in thin],
        [Mark(across.place(mark.x), up.place(mark.y), mark.name, mark.look) for mark in marks],
        [Tick(across.place(value), str(value)) for value in at] or across.ticks(6, share=share),
        up.ticks(5, share=share),
        x_title,
        y_title,
    )


def curve(values: Sequence[float], *, x_title: str, y_title: str) -> LineChart:
    """One value per epoch or step."""
    whole = Series("", range(1, len(values) + 1), values)
    return line_chart([whole], x_title=x_title, y_title=y_title)


def head_chart(
    epochs: Sequence[int],
    values: Sequence[Sequence[float]],
    *,
    head: int,
    epoch: int,
    y_title: str,
    top: float = math.inf,
) -> LineChart:
    """A line per head, (looks, heads); the selected one stands out, and the epoch that it was taken at."""
    table = np.array(values, dtype=np.float64)  # (looks, heads)
    order = sorted(range(table.shape[1]), key=lambda number: number == head)  # the selected one over the others
    series = [
        Series(f"head {number}", epochs, table[:, number].tolist(), "selected" if number == head else "plain")
        for number in order
    ]
    value = float(table[list(epochs).index(epoch), head])
    mark = Mark(epoch, value, f"head {head}, selected after epoch {epoch}: {value:.4f}")
    few = epochs[:: -(-len(epochs) // 10)]
    return line_chart(series, x_title="epoch", y_title=y_title, marks=[mark], at=few, top=top)


class _Axis:
    """From values to places in the SVG."""

    def __init__(
        self, values: Sequence[float], start: float, end: float, *, room: float = 0.0, top: float = math.inf
    ) -> None:
        low, high = min(values), max(values)
        spare = room * (high - low) if high > low else max(abs(low) * 0.05, 1e-6)
        self.low, self.high, self.start, self.end = low - spare, min(high + spare, top), start, end

    def place(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, most: int, *, share: bool) -> list[Tick]:
        """Round numbers, at most so many."""
        step = _round_step((self.high - self.low) / most)
        numbers = range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        texts = (
            f"{number * step:.{max(0, digits - 2)}%}" if share else f"{number * step:.{digits}f}" for number in numbers
        )
        return [Tick(self.place(number * step), text) for number, text in zip(numbers, texts, strict=True)]


def _round_step(least: float) -> float:
    """The least of 1, 2 and 5 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def _points(series: Series, across: _Axis, up: _Axis) -> str:
    return " ".join(f"{across.place(x)},{up.place(y)}" for x, y in zip(series.x, series.y, strict=True))


def _thinned(series: Series) -> Series:
    """Of very many points, the means of stretches, each where its stretch ends."""
    if len(series.x) <= _MOST_POINTS:
        return series
    values = np.array_split(np.array(series.y), _MOST_POINTS)
    places = np.array_split(np.array(series.x), _MOST_POINTS)
    return series._replace(x=[float(part[-1]) for part in places], y=[float(part.mean()) for part in values])
