"""What a data set is: images for everything that learns, and true labels behind a door that `evaluate` alone opens.

`Images` is all that a stage is given, and holds no label. True labels come out of `Part.truth()` as `evaluate.Truth`, a
type that nothing below `benchmark` may import; until then they are not even read.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spice.benchmark.datasets.catalog import Card, Counts
from spice.errors import UserError
from spice.evaluate import Truth

Images = NDArray[np.uint8] | list[Path]  # (N, H, W) or (N, H, W, 3), or N files: what `spice.data.ingest` takes
Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Part:
    """Images, and where to find their true labels once everything is done."""

    images: Images
    classes: tuple[str, ...]
    read_labels: Callable[[], Labels]  # (N,) in the order of `images`; not called before `truth`

    def __len__(self) -> int:
        return len(self.images)

    def truth(self) -> Truth:
        """Open the door. For `evaluate`, and for the supervised references of the paper's tables."""
        try:
            labels = self.read_labels().astype(np.int64)
        except OSError as error:
            raise UserError(f"the true labels cannot be read: {error}") from error
        if labels.shape != (len(self),):
            raise UserError(f"{len(self):,} images have {labels.shape[0]:,} labels: get the data set again")
        if len(labels) and not 0 <= labels.min() <= labels.max() < len(self.classes):
            raise UserError(
                f"labels run from {labels.min()} to {labels.max()}, but there are {len(self.classes)} classes: "
                "get the data set again"
            )
        return Truth(np.arange(len(labels)), labels, self.classes)

    def merged(self, other: "Part") -> "Part":
        """Both parts as one, these images first."""
        if isinstance(self.images, list) and isinstance(other.images, list):
            images: Images = self.images + other.images
        else:
            images = np.concatenate([np.asarray(self.images), np.asarray(other.images)])
        return Part(images, self.classes, lambda: np.concatenate([self.read_labels(), other.read_labels()]))


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set as it lies on this machine."""

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


# Reads one layout from a folder, or gives None if the folder does not have that layout.
Reader = Callable[[Path, Card], Dataset | None]


def around(folder: Path) -> Iterator[Path]:
    """The folder itself, then those in it: archives wrap their content in a folder of any name."""
    yield folder
    yield from sorted(item for item in folder.iterdir() if item.is_dir())


def holding(folder: Path, *names: str) -> Path | None:
    """The folder, at most one deeper, that holds all the named files."""
    return next((place for place in around(folder) if all((place / name).is_file() for name in names)), None)
