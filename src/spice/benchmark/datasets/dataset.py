"""What a data set is: images for everything that learns, and true labels behind a door that `evaluate` alone opens.

`Images` is all that a stage is given, and holds no label. True labels come out of `Part.truth()` as `evaluate.Truth`, a
type that nothing below `benchmark` may import; until then they are not even read.

    setting = load("cifar10").split()
    store = ingest(setting.learn, size=32, folder=run / "images")            # stages 1 to 3: no label in sight
    scored = ingest(setting.scored.images, size=32, folder=run / "scored")
    labels = setting.scored.truth().labels[scored.collection.numbers]        # in the order of the store
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

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

    def merged(self, other: Self) -> "Part":
        """Both parts as one, these images first."""
        return Part(
            merged([self.images, other.images]),
            self.classes,
            lambda: np.concatenate([self.read_labels(), other.read_labels()]),
        )


class Setting(NamedTuple):
    """How a table of the paper uses a data set."""

    learn: Images  # what is clustered in all three stages
    extra: Images | None  # images without labels that stages 1 and 3 learn from too, and stage 2 never
    scored: Part

    def learn_with_extra(self) -> Images:
        """What stages 1 and 3 learn from."""
        return self.learn if self.extra is None else merged([self.learn, self.extra])


class Counts(NamedTuple):
    """How many images the parts of a data set have."""

    train: int
    test: int = 0
    unlabeled: int = 0


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

    def whole(self) -> Setting:
        """Train and test merged as one, for learning and for scoring (the paper's Table II)."""
        everything = self.train if self.test is None else self.train.merged(self.test)
        return Setting(everything.images, self.unlabeled, everything)

    def split(self) -> Setting:
        """Learned on train, scored on test (the paper's Table III)."""
        if self.test is None:
            raise UserError(f"{self.name} has no test part, so only the whole setting is defined for it")
        return Setting(self.train.images, self.unlabeled, self.test)


def merged(parts: Sequence[Images]) -> Images:
    """Images of several parts in one list or one array."""
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if len(arrays) == len(parts):
        return np.concatenate(arrays)
    return [path for part in parts if not isinstance(part, np.ndarray) for path in part]
