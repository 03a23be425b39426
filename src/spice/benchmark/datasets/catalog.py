"""What is published of each data set: where it lies, how large it is, in which layouts it comes (`catalog.toml`)."""

import tomllib
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import sklearn.datasets
from pydantic import TypeAdapter

from spice.errors import UserError


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
    classes: tuple[str, ...] = ()  # in the order of the official labels; empty where the archive alone lists them
    files: tuple[Remote, ...] = ()
    advice: str = ""  # where to get it if `files` is empty
    places: tuple[Path, ...] = ()  # where an operating system's package puts it
    first_labels: tuple[int, ...] = ()  # tells apart data sets that share one layout

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
        raise UserError(f"there is no data set {name}: choose one of {', '.join(CATALOG)}")
    return CATALOG[name]
