"""Images in one folder per class: Imagenette and Imagewoof as published, subsets of ImageNet, and the like."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from spice.benchmark.datasets.card import Card
from spice.benchmark.datasets.dataset import Dataset, Labels, Part
from spice.benchmark.datasets.layout import around

_SUFFIXES = {".jpg", ".jpeg", ".png"}

# Where an ImageNet folder keeps its training images, as the challenge, Kaggle and common scripts lay it out.
_IMAGENET_TRAIN = ("", "train", "Data/CLS-LOC/train", "ILSVRC/Data/CLS-LOC/train", "ILSVRC2012_img_train")


def read_split(folder: Path, card: Card) -> Dataset | None:
    """`train/<class>/*.jpg` and `val/<class>/*.jpg` (or `test`)."""
    for place in around(folder):
        train = _class_folders(place / "train", card)
        test = _class_folders(place / "val", card) or _class_folders(place / "test", card)
        if train and test:
            return Dataset(card.name, train=part(train, card), test=part(test, card))
    return None


def read_flat(folder: Path, card: Card) -> Dataset | None:
    """`<class>/*.jpg`, all for learning."""
    for place in around(folder):
        if train := _class_folders(place, card):
            return Dataset(card.name, train=part(train, card))
    return None


def read_imagenet(folder: Path, card: Card) -> Dataset | None:
    """The card's classes among the training images of an ImageNet folder."""
    for place in (outer / inner for outer in around(folder) for inner in _IMAGENET_TRAIN):
        if train := _class_folders(place, card):
            return Dataset(card.name, train=part(train, card))
    return None


def part(class_folders: list[Path], card: Card) -> Part:
    """All images of the class folders, which come in the order of the classes."""
    by_class = [images_in(folder) for folder in class_folders]

    def labels() -> Labels:
        return np.repeat(np.arange(len(by_class)), [len(paths) for paths in by_class])

    return Part([path for paths in by_class for path in paths], card.classes, labels)


def images_in(folder: Path) -> list[Path]:
    """The image files in a folder, by name."""
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES and path.name[0] != ".")


def _class_folders(place: Path, card: Card) -> list[Path] | None:
    """The folder of every class, in the order of the classes; None unless all are there.

    A folder may have the class's id or its name, so a class is written `n01440764 tench` in a card.
    """
    if not place.is_dir():
        return None
    folders = {_spelled(item.name): item for item in place.iterdir() if item.is_dir()}
    found = [_first(folders, _names(name)) for name in card.classes]
    return [folder for folder in found if folder is not None] if None not in found else None


def _names(name: str) -> tuple[str, str]:
    number, _, title = name.partition(" ")
    return _spelled(number), _spelled(title or number)


def _first(folders: dict[str, Path], names: Iterable[str]) -> Path | None:
    return next((folders[name] for name in names if name in folders), None)


def _spelled(name: str) -> str:
    return name.lower().replace(" ", "_").replace("-", "_")
