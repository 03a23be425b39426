"""Common code of the benchmarks: images, collections with true labels, stored features, and tables."""

import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits

from spice.data import ImageStore, ingest
from spice.evaluate.truth import from_folders

Features = NDArray[np.float32]
Truth = NDArray[np.int64]

# name: file, and the folder or array in it
COLLECTIONS = {
    "imagenette": ("imagenette.tar", "imagenette"),
    "fruits": ("fruits.tar", "fruits"),
    "cifar10-test": ("cifar10.tar.gz", "cifar10/test"),
    "fashion-test": ("fashion_mnist.npz", "x_test"),
    "trash": ("trash.tar", "trash"),
    "flowers": ("flowers.tar", "flowers"),
    "caltech": ("caltech.tar", "caltech"),
}
IMAGES = 3_000  # sampled from larger collections


class Decoded(NamedTuple):
    """A decoded collection and its true labels."""

    store: ImageStore
    truth: Truth  # (N,) numbers of classes
    classes: tuple[str, ...]


def decode(data: Path, name: str, folder: Path, *, size: int) -> Decoded:
    """Decode a collection of the data folder into a store in `folder`."""
    file, member = COLLECTIONS[name]
    if file.endswith(".npz"):
        with np.load(data / file) as arrays:
            store = ingest(arrays[member], size=size, folder=folder)
            truth = arrays[member.replace("x", "y")][store.collection.numbers].astype(np.int64)
        return Decoded(store, truth, tuple(str(number) for number in range(int(truth.max()) + 1)))
    with tempfile.TemporaryDirectory() as unpacked:
        with tarfile.open(data / file) as archive:
            archive.extractall(unpacked, filter="data")
        store = ingest(str(Path(unpacked) / member), size=size, folder=folder)
    _, truth, classes = from_folders(store.collection.paths)
    return Decoded(store, truth, classes)


def unpack(archive: Path, folder: Path, count: int | None) -> int:
    """Unpack `count` photos (None: all), evenly spaced in the order of their names. Returns their number."""
    with tarfile.open(archive) as opened:
        members = sorted((one for one in opened.getmembers() if one.isfile()), key=lambda one: one.name)
        if count is not None and count < len(members):
            members = [members[place] for place in np.linspace(0, len(members) - 1, count).astype(int)]
        opened.extractall(folder, members=members, filter="data")
    return len(members)


def write_digits(folder: Path, count: int) -> None:
    """Write handwritten digits as image files; after all 1,797 of them, the same upside down."""
    folder.mkdir()
    pixels = (load_digits().images * (255 / 16)).round().astype(np.uint8)
    for number in range(count):
        half_turns, index = divmod(number, len(pixels))
        Image.fromarray(np.rot90(pixels[index], 2 * half_turns)).save(folder / f"{number:05d}.png")


def read_features(file: Path, images: int | None = IMAGES) -> tuple[Features, Truth]:
    """Features and true labels of at most `images` random images in a file of `frozen_features.py encode`."""
    with np.load(file) as stored:
        features, truth = stored["features"].astype(np.float32), np.unique(stored["truth"], return_inverse=True)[1]
    drawn = np.sort(np.random.default_rng(0).permutation(len(features))[:images])
    return features[drawn], truth[drawn]


def read_class_names(file: Path) -> NDArray[np.str_]:
    """The names of the classes."""
    with np.load(file) as stored:
        return np.asarray(stored["classes"])


def header(*columns: str) -> None:
    print(f"\n| {' | '.join(columns)} |\n{'|---' * len(columns)}|", flush=True)


def row(name: str, figures: Iterable[float], *more: str) -> None:
    print("| " + " | ".join([name, *(f"{figure:.3f}" for figure in figures), *more]) + " |", flush=True)


def seed_range(text: str) -> list[int]:
    """`0-4` or `3` as a list of seeds."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))
