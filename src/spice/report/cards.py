"""The card of each cluster: its pictures with captions, its verdict, its histogram."""

from typing import NamedTuple

from spice.report.charts import Bar, histogram
from spice.report.colors import Color, colors
from spice.report.content import ClusterName, Content
from spice.report.pictures import data_url
from spice.report.verdict import Verdict
from spice.runs import Cluster

_KINDS = {
    "prototypes": ("Nearest to the center", "Center", "the images that the group is built around"),
    "typical": ("Typical", "Typical", "from the middle of the group"),
    "borderline": ("Borderline", "Borderline", "another group is almost as likely"),
    "doubtful": ("Doubtful", "Doubtful", "few of their neighbors are in this group"),
}


class Picture(NamedTuple):
    """One image on a card."""

    row: int
    name: str
    source: str | None  # a data URL; None if there is no picture
    attention: str | None
    caption: str


class Kind(NamedTuple):
    """A row of pictures."""

    name: str
    title: str
    short: str  # the title on a small card
    meaning: str
    pictures: list[Picture]


class Card(NamedTuple):
    """One cluster."""

    figures: Cluster
    name: ClusterName
    verdict: Verdict
    color: Color
    kinds: list[Kind]
    bars: list[Bar]


def cards(content: Content) -> list[Card]:
    """One card per cluster, in the order of their numbers."""
    clusters = content.summary.clusters
    return [_card(content, figures, color) for figures, color in zip(clusters, colors(len(clusters)), strict=True)]


def _card(content: Content, figures: Cluster, color: Color) -> Card:
    labels, number = content.labels, figures.cluster
    kinds = [
        Kind(name, *_KINDS[name], [_picture(content, row) for row in rows.tolist()])
        for name, rows in content.card_images[number]._asdict().items()
    ]
    members = labels.cluster == number
    bars = histogram(labels.reliability[members], labels.reliable[members])
    return Card(figures, content.names[number], content.verdicts[number], color, kinds, bars)


def _picture(content: Content, row: int) -> Picture:
    labels, folder = content.labels, content.pictures
    caption = (
        f"chance {labels.chance[row]:.0%}, confidence {labels.confidence[row]:.0%}, "
        f"next group {labels.nearest_other_cluster[row]}"
    )
    files = (folder / f"{kind}-{row}.jpg" for kind in ("image", "attention"))
    image, attention = (data_url(file.read_bytes()) if file.exists() else None for file in files)
    return Picture(row, labels.path[row], image, attention, caption)
