"""What is published of a data set: where it lies, how large it is, and in which forms it can be read."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from spice.benchmark.datasets.dataset import Counts, Dataset


class Remote(NamedTuple):
    """A published file."""

    url: str
    bytes: int
    sha256: str

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[1]


@dataclass(frozen=True)
class Card:
    """A data set as its authors publish it."""

    name: str
    title: str
    classes: tuple[str, ...]  # in the order of the official labels; empty where the archive alone lists them
    clusters: int  # K
    pixels: str
    counts: Counts
    readers: "tuple[Reader, ...]"
    files: tuple[Remote, ...] = ()
    advice: str = ""  # where to get it if `files` is empty
    places: tuple[Path, ...] = ()  # where an operating system's package puts it
    first_labels: tuple[int, ...] = ()  # tells apart data sets that share one layout

    @property
    def download_bytes(self) -> int:
        return sum(remote.bytes for remote in self.files)


# Reads one layout from a folder, or gives None if the folder does not have that layout.
Reader = Callable[[Path, Card], Dataset | None]
