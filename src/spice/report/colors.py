"""A color for every cluster, on light and on dark ground."""

from colorsys import hls_to_rgb
from math import gcd
from typing import NamedTuple


class Color(NamedTuple):
    """`#rrggbb`, on either ground."""

    light: str
    dark: str


# Chosen one after another, each as far as possible (in OKLab) from those before it, to eyes that see all colors and to
# those that lack red, green or blue cones, on both grounds, and at least 2.4 : 1 against the ground.
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
    """One for each cluster. Of more than a dozen, no eye tells all apart: the page can single out each as well."""
    return list(_FEW[:clusters]) if clusters <= len(_FEW) else [_around(number, clusters) for number in range(clusters)]


def _around(cluster: int, clusters: int) -> Color:
    """Hues all around the circle; neighbors there differ in lightness, and clusters that follow each other in hue."""
    stride = next(step for step in range(max(1, round(0.38 * clusters)), clusters + 1) if gcd(step, clusters) == 1)
    place = cluster * stride % clusters
    hue, lighter = (20 / 360 + place / clusters) % 1, 0.08 * (place % 3)
    return Color(_hex(hue, 0.28 + lighter), _hex(hue, 0.56 + lighter))


def _hex(hue: float, lightness: float) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in hls_to_rgb(hue, lightness, 0.6))
