"""A color for every cluster, on a light and on a dark background."""

from colorsys import hls_to_rgb
from math import gcd
from typing import NamedTuple


class Color(NamedTuple):
    """`#rrggbb`, by background."""

    light: str
    dark: str


# Each color is as different as possible (in OKLab) from those before it, on both backgrounds, with normal vision and
# without red, green or blue cones. All have a contrast of at least 2.4 : 1.
_FEW = (
    Color("#ba4e25", "#f9875e"),
    Color("#1132a0", "#527ce0"),
    Color("#62accf", "#8fdafe"),
    Color("#642c49", "#aa6b89"),
    Color("#7a64b3", "#b09bee"),
    Color("#b0a604", "#ddd450"),
    Color("#268676", "#64bead"),
    Color("#891a00", "#d36145"),
    Color("#82a382", "#b0d2b0"),
    Color("#4a5a7d", "#8496bc"),
    Color("#794e47", "#b88980"),
    Color("#46376d", "#8577b2"),
)


def colors(clusters: int) -> list[Color]:
    """One for each cluster. More than a dozen are hard to tell apart, so the map can also show one cluster alone."""
    return list(_FEW[:clusters]) if clusters <= len(_FEW) else [_around(number, clusters) for number in range(clusters)]


def _around(cluster: int, clusters: int) -> Color:
    """Hues around the whole circle; similar hues differ in lightness, and consecutive clusters in hue."""
    stride = next(step for step in range(max(1, round(0.38 * clusters)), clusters + 1) if gcd(step, clusters) == 1)
    place = cluster * stride % clusters
    hue, lighter = (20 / 360 + place / clusters) % 1, 0.08 * (place % 3)
    return Color(_hex(hue, 0.28 + lighter), _hex(hue, 0.56 + lighter))


def _hex(hue: float, lightness: float) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in hls_to_rgb(hue, lightness, 0.6))
