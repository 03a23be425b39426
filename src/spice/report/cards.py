"""The card of each cluster: its pictures with their words, its verdict, its histogram."""

import base64
from pathlib import Path
from typing import NamedTuple

import numpy as np

from spice.report.charts import Bar, histogram
from spice.report.colors import Color, colors
from spice.report.content import Content
from spice.report.verdict import Verdict
from spice.runs import Cluster, Labels

_KINDS = {
    "prototypes": ("Nearest to the center", "Center", "the images that the cluster is built around"),
    "typical": ("Typical", "Typical", "from the middle of the cluster"),
    "borderline": ("Borderline", "Borderline", "another cluster is almost as likely"),
    "doubtful": ("Doubtful", "Doubtful", "the fewest of their neighbors are in this cluster"),
}


class Picture(NamedTuple):
    """One image on a card."""

    row: int
    name: str
    source: str | None  # a data address; None where the run has no picture of it
    attention: str | None
    words: str


class Kind(NamedTuple):
    """A row of pictures."""

    name: str
    title: str
    short: str  # where cards are small
    meaning: str
    pictures: list[Picture]


class Card(NamedTuple):
    """One cluster."""

    figures: Cluster
    verdict: Verdict
    color: Color
    kinds: list[Kind]
    bars: list[Bar]


def cards(content: Content) -> list[Card]:
    """A card per cluster, in the order of their numbers."""
    found = content.account.clusters
    return [_card(content, figures, color) for figures, color in zip(found, colors(len(found)), strict=True)]


def _card(content: Content, figures: Cluster, color: Color) -> Card:
    labels, number = content.labels, figures.cluster
    kinds = [
        Kind(name, *_KINDS[name], [_picture(content.pictures, labels, row) for row in rows.tolist()])
        for name, rows in content.chosen[number]._asdict().items()
    ]
    members = np.flatnonzero(labels.cluster == number)
    bars = histogram(labels.reliability[members], labels.reliable[members])
    return Card(figures, content.verdicts[number], color, kinds, bars)


def _picture(folder: Path, labels: Labels, row: int) -> Picture:
    words = (
        f"probability {labels.probability[row]:.2f}, reliability {labels.reliability[row]:.2f}, "
        f"next cluster {labels.nearest_other_cluster[row]}"
    )
    return Picture(
        row,
        labels.path[row],
        _inside(folder / f"image-{row}.jpg"),
        _inside(folder / f"attention-{row}.jpg"),
        words,
    )


def _inside(path: Path) -> str | None:
    if not path.exists():
        return None
    return f"data:image/jpeg;base64,{base64.b64encode(path.read_bytes()).decode()}"
