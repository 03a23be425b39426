"""The catalog of data sets, `catalog.toml`: addresses, sizes and layouts.

Stages get only `Images`, without labels. `Part.truth()` reads the true labels and returns `evaluate.Truth`, a type that
nothing below `benchmark` may import.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sklearn.datasets
from numpy.typing import NDArray
from pydantic import TypeAdapter

from spice.errors import UserError
from spice.evaluate import Truth

Images = NDArray[np.uint8] | list[Path]  # (N, H, W) or (N, H, W, 3), or N files: what `spice.data.ingest` takes
Labels = NDArray[np.int64]


class Remote(NamedTuple):
    """A published file."""

    url: str
    bytes: int
    sha256: str

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[1]


class Counts(NamedTuple):
    """How many images the parts of a data set have."""

    train: int
    test: int = 0
    unlabeled: int = 0


@dataclass(frozen=True)
class Card:
    """A data set as its authors publish it."""

    name: str
    title: str
    clusters: int  # K
    pixels: str
    counts: Counts
    layouts: tuple[str, ...]  # names of readers
    classes: tuple[str, ...] = ()  # in the order of the official labels; empty if only the archive lists them
    files: tuple[Remote, ...] = ()
    advice: str = ""  # where to get it if `files` is empty
    places: tuple[Path, ...] = ()  # where a package of the operating system installs it
    first_labels: tuple[int, ...] = ()  # to tell apart data sets with the same layout

    @property
    def download_bytes(self) -> int:
        return sum(remote.bytes for remote in self.files)


def _read_cards() -> dict[str, Card]:
    entries = tomllib.loads(files(__package__).joinpath("catalog.toml").read_text(encoding="utf-8"))
    named = {name: {"name": name} | entry for name, entry in entries.items()}
    cards = TypeAdapter(dict[str, Card]).validate_python(named)
    cards["digits"] = replace(cards["digits"], places=(Path(sklearn.datasets.__file__).parent,))
    return cards


CATALOG: dict[str, Card] = _read_cards()


def card_of(name: str) -> Card:
    """The data set called `name`."""
    if name not in CATALOG:
        raise UserError(f"unknown data set {name}; choose one of {', '.join(CATALOG)}")
    return CATALOG[name]


@dataclass(frozen=True, eq=False)
class Part:
    """Images, and a function that reads their true labels."""

    images: Images
    classes: tuple[str, ...]
    read_labels: Callable[[], Labels]  # (N,) in the order of `images`; not called before `truth`

    def __len__(self) -> int:
        return len(self.images)

    def truth(self) -> Truth:
        """The true labels, for `evaluate` and for the supervised references of the paper's tables."""
        try:
            labels = self.read_labels().astype(np.int64)
        except OSError as error:
            raise UserError(f"cannot read the true labels: {error}") from error
        if labels.shape != (len(self),):
            raise UserError(f"{len(self):,} images have {labels.shape[0]:,} labels; download the data set again")
        if len(labels) and not 0 <= labels.min() <= labels.max() < len(self.classes):
            raise UserError(
                f"labels run from {labels.min()} to {labels.max()}, but there are {len(self.classes)} classes: "
                "download the data set again"
            )
        return Truth(np.arange(len(labels)), labels, self.classes)

    def merged(self, other: "Part") -> "Part":
        """Both parts as one, with these images first."""
        if isinstance(self.images, list) and isinstance(other.images, list):
            images: Images = self.images + other.images
        else:
            images = np.concatenate([np.asarray(self.images), np.asarray(other.images)])
        return Part(images, self.classes, lambda: np.concatenate([self.read_labels(), other.read_labels()]))


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set on this machine."""

    name: str
    train: Part
    test: Part | None = None
    unlabeled: Images | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        return self.train.classes

    @property
    def counts(self) -> Counts:
        test = 0 if self.test is None else len(self.test)
        return Counts(len(self.train), test, 0 if self.unlabeled is None else len(self.unlabeled))
