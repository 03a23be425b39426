"""Which tables there are: their methods, their scores, and what of the paper stands beside. Opens without torch."""

from dataclasses import dataclass
from typing import Literal

SizeName = Literal["smoke", "cpu", "full"]


@dataclass(frozen=True)
class Table:
    """One table of the paper, or one of ours."""

    name: str
    title: str
    paper: str  # its number there, or "" for one of ours
    which: Literal["whole", "split"]
    methods: tuple[str, ...]
    scores: tuple[str, ...] = ("ACC", "NMI", "ARI")


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


_TABLES = (
    Table(
        "whole",
        "Whole setting: learned from and scored on all images",
        "II",
        "whole",
        _names(
            "k-means, spectral, agglomerative, NMF, AE, DAE, VAE, DEC, features + k-means, SCAN*, SCAN, SPICE-s, SPICE"
        ),
    ),
    Table(
        "split",
        "Split setting: learned from train, scored on test",
        "III",
        "split",
        _names("features + k-means, SCAN*, SCAN, SPICE-s, SPICE, supervised"),
    ),
    Table(
        "detailed",
        "Split setting in detail: mean and standard deviation over runs",
        "IV",
        "split",
        _names("supervised, features + k-means, SCAN*, SCAN, SPICE-s, SPICE"),
    ),
    Table(
        "semi-supervised",
        "Against semi-supervised learning: accuracy with some true labels, and with none",
        "V",
        "split",
        _names("Pi-model, Pseudo-Labeling, Mean Teacher, MixMatch, UDA, FixMatch, SCAN, SPICE"),
        scores=("ACC",),
    ),
    Table(
        "feature-quality",
        "Features before and after joint training: linear probe, clusters, reliable labels",
        "VI",
        "split",
        ("Before", "After"),
        scores=("supervised", "unsupervised", "reliable labels"),
    ),
    Table(
        "ablation",
        "Ablation of the second stage",
        "VII",
        "whole",
        _names("Non-overlap, Joint-SH, Joint-MH, Entropy, CE, TCE, SPICE-s of the paper"),
    ),
    Table(
        "augmentation",
        "Views in the second stage: labels from the first, learned by the second",
        "VIII",
        "whole",
        _names("Weak / Weak, Strong / Weak, Strong / Strong, Weak / Strong"),
    ),
    Table(
        "frozen",
        "Methods on the same frozen features",
        "",
        "whole",
        _names(
            "features + k-means, features + spherical k-means, features + Gaussian mixture, features + spectral, "
            "features + agglomerative, SCAN*, features + TEMI, SPICE-s of the paper, SPICE-s"
        ),
    ),
)
TABLES: dict[str, Table] = {table.name: table for table in _TABLES}
