"""The data sets of the tables: `load(name)` reads one that is on this machine, `get(name)` downloads it first."""

from pathlib import Path

from spice.benchmark.datasets import shelf
from spice.benchmark.datasets.catalog import CATALOG, Card, Counts, Dataset, Images, Part, Remote, card_of
from spice.benchmark.datasets.shelf import default_root, located
from spice.progress import Progress, silent

__all__ = [
    "CATALOG",
    "Card",
    "Counts",
    "Dataset",
    "Images",
    "Part",
    "Remote",
    "card_of",
    "default_root",
    "get",
    "load",
    "located",
]


def load(name: str, *, root: Path | None = None) -> Dataset:
    """The data set called `name`, which must be on this machine. The default of `root` is $SPICE_DATA."""
    return shelf.load(card_of(name), root or default_root())


def get(name: str, *, source: Path | None = None, root: Path | None = None, progress: Progress = silent) -> Dataset:
    """The data set called `name`, downloaded if needed, or taken from the archive or folder `source`."""
    return shelf.get(card_of(name), source=source, root=root or default_root(), progress=progress)
