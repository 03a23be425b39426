"""STL-10 in its binary form: 96 x 96 pixels, and 100,000 images that have no label."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spice.benchmark.datasets.card import Card
from spice.benchmark.datasets.dataset import Dataset, Labels, Part
from spice.benchmark.datasets.layout import holding, records

_SIDE = 96


def read(folder: Path, card: Card) -> Dataset | None:
    """The layout of stl10_binary.tar.gz; the unlabeled part may be missing."""
    place = holding(folder, "train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin")
    if place is None:
        return None
    unlabeled = place / "unlabeled_X.bin"
    return Dataset(
        card.name,
        train=_part(place, "train", card),
        test=_part(place, "test", card),
        unlabeled=_images(unlabeled) if unlabeled.is_file() else None,
    )


def _part(place: Path, name: str, card: Card) -> Part:
    def labels() -> Labels:
        return np.fromfile(place / f"{name}_y.bin", dtype=np.uint8).astype(np.int64) - 1  # published as 1 to 10

    return Part(_images(place / f"{name}_X.bin"), card.classes, labels)


def _images(path: Path) -> NDArray[np.uint8]:
    """Each image is three channels, each stored column by column. A view of the file: nothing is read yet."""
    stored = records(path, 3 * _SIDE * _SIDE).reshape(-1, 3, _SIDE, _SIDE)  # (N, C, W, H)
    return stored.transpose(0, 3, 2, 1)  # (N, H, W, C)
