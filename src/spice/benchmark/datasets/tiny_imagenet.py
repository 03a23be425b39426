"""Tiny-ImageNet-200: 64 x 64 pixels; its test part are the validation images, whose labels stand in a table."""

from pathlib import Path

import numpy as np

from spice.benchmark.datasets.card import Card
from spice.benchmark.datasets.dataset import Dataset, Labels, Part
from spice.benchmark.datasets.folders import images_in
from spice.benchmark.datasets.layout import holding
from spice.errors import UserError

_TABLE = "val_annotations.txt"


def read(folder: Path, card: Card) -> Dataset | None:
    """The layout of tiny-imagenet-200.zip; its own test images have no published labels and are left out."""
    place = holding(folder, "wnids.txt", f"val/{_TABLE}")
    if place is None:
        return None
    classes = tuple(sorted((place / "wnids.txt").read_text(encoding="ascii").split()))
    number = {name: label for label, name in enumerate(classes)}
    train = [path for name in classes for path in _images(place / "train" / name / "images")]
    test = _images(place / "val" / "images")

    def train_labels() -> Labels:
        return np.array([number[path.parent.parent.name] for path in train], dtype=np.int64)

    def test_labels() -> Labels:
        table = _table(place / "val" / _TABLE)
        try:
            return np.array([number[table[path.name]] for path in test], dtype=np.int64)
        except KeyError as error:
            raise UserError(f"{place / 'val' / _TABLE} and wnids.txt do not tell the class of {error}") from error

    return Dataset(card.name, train=Part(train, classes, train_labels), test=Part(test, classes, test_labels))


def _images(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}: is the data set complete?")
    return images_in(folder)


def _table(path: Path) -> dict[str, str]:
    """Class id by file name; the bounding boxes that follow are not needed."""
    rows = [line.split("\t") for line in path.read_text(encoding="ascii").splitlines() if line]
    return {row[0]: row[1] for row in rows if len(row) > 1}
