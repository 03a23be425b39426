"""Images in one folder per class: Imagenette and Imagewoof as published, subsets of ImageNet, and the like.

And Tiny-ImageNet-200, whose test part are the validation images, with their labels in a table.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from spice.benchmark.datasets.catalog import Card
from spice.benchmark.datasets.dataset import Dataset, Labels, Part, around, holding
from spice.errors import UserError

_SUFFIXES = {".jpg", ".jpeg", ".png"}

# Where an ImageNet folder keeps its training images, as the challenge, Kaggle and common scripts lay it out.
_IMAGENET_TRAIN = ("", "train", "Data/CLS-LOC/train", "ILSVRC/Data/CLS-LOC/train", "ILSVRC2012_img_train")


def read_split(folder: Path, card: Card) -> Dataset | None:
    """`train/<class>/*.jpg` and `val/<class>/*.jpg` (or `test`)."""
    for place in around(folder):
        train, test = _first([place / "train"], card), _first([place / "val", place / "test"], card)
        if train is not None and test is not None:
            return Dataset(card.name, train=train, test=test)
    return None


def read_flat(folder: Path, card: Card) -> Dataset | None:
    """`<class>/*.jpg`, all for learning."""
    train = _first(around(folder), card)
    return None if train is None else Dataset(card.name, train=train)


def read_imagenet(folder: Path, card: Card) -> Dataset | None:
    """The card's classes among the training images of an ImageNet folder."""
    train = _first((outer / inner for outer in around(folder) for inner in _IMAGENET_TRAIN), card)
    return None if train is None else Dataset(card.name, train=train)


def read_tiny_imagenet(folder: Path, card: Card) -> Dataset | None:
    """The layout of tiny-imagenet-200.zip; its own test images have no published labels and are left out."""
    place = holding(folder, "wnids.txt", "val/val_annotations.txt")
    if place is None:
        return None
    classes = tuple(sorted((place / "wnids.txt").read_text(encoding="ascii").split()))
    number = {name: label for label, name in enumerate(classes)}
    train = [path for name in classes for path in _images(place / "train" / name / "images")]
    test = _images(place / "val" / "images")

    def train_labels() -> Labels:
        return np.array([number[path.parent.parent.name] for path in train], dtype=np.int64)

    def test_labels() -> Labels:
        table = place / "val" / "val_annotations.txt"
        rows = [line.split("\t") for line in table.read_text(encoding="ascii").splitlines() if line]
        class_of = {row[0]: row[1] for row in rows if len(row) > 1}  # bounding boxes follow, which are not needed
        try:
            return np.array([number[class_of[path.name]] for path in test], dtype=np.int64)
        except KeyError as error:
            raise UserError(f"{table} and wnids.txt do not give the class of {error}") from error

    return Dataset(card.name, train=Part(train, classes, train_labels), test=Part(test, classes, test_labels))


def _first(places: Iterable[Path], card: Card) -> Part | None:
    return next((part for place in places if (part := _part(place, card)) is not None), None)


def _part(place: Path, card: Card) -> Part | None:
    """All images of the class folders in `place`, in the order of the classes; None unless every class has a folder.

    A folder may have the class's id or its name, so a class is written `n01440764 tench` in a card.
    """
    if not place.is_dir():
        return None
    folders = {_spelled(item.name): item for item in place.iterdir() if item.is_dir()}
    by_class = []
    for title in card.classes:
        number, _, name = title.partition(" ")
        folder = folders.get(_spelled(number)) or folders.get(_spelled(name or number))
        if folder is None:
            return None
        by_class.append(_images(folder))
    counts = [len(paths) for paths in by_class]
    images = [path for paths in by_class for path in paths]
    return Part(images, card.classes, lambda: np.repeat(np.arange(len(counts)), counts))


def _images(folder: Path) -> list[Path]:
    """The image files in a folder, by name."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}: is the data set complete?")
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES and path.name[0] != ".")


def _spelled(name: str) -> str:
    return name.lower().replace(" ", "_").replace("-", "_")
