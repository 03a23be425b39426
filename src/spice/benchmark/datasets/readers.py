"""Readers for the layouts in which the data sets are published; docs/datasets.md lists them.

A record of CIFAR is its label bytes (CIFAR-10: one; CIFAR-100: superclass and class), then the red, green and blue
pixels, row by row. STL-10 stores pixels by column, and labels in separate files; 100,000 of its images have none. MNIST
is four idx files, gzipped or not, or one .npz file. Photos are in one folder per class.
"""

import gzip
import math
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from spice.benchmark.datasets.catalog import Card, Dataset, Labels, Part
from spice.errors import UserError

# Reads one layout from a folder; returns None if the folder does not have that layout.
Reader = Callable[[Path, Card], Dataset | None]


def around(folder: Path) -> Iterator[Path]:
    """The folder itself, then its subfolders: archives wrap their content in a folder of any name."""
    yield folder
    yield from sorted(item for item in folder.iterdir() if item.is_dir())


def holding(folder: Path, *names: str) -> Path | None:
    """The folder, or a subfolder of it, that contains all these files."""
    return next((place for place in around(folder) if all((place / name).is_file() for name in names)), None)


_TRAIN_10 = [f"data_batch_{number}" for number in range(1, 6)]

# All names in the pickle of an array. The first module was renamed in numpy 2.
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}
# Errors that loading a damaged or hostile pickle can raise.
_DAMAGE = (
    *(pickle.UnpicklingError, ArithmeticError, AttributeError, EOFError, ImportError, LookupError),
    *(MemoryError, TypeError, ValueError, struct.error),
)


def read_stl10(folder: Path, card: Card) -> Dataset | None:
    """The layout of stl10_binary.tar.gz; the unlabeled part may be missing."""
    place = holding(folder, "train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin")
    if place is None:
        return None

    def part(name: str) -> Part:
        def labels() -> Labels:
            return np.fromfile(place / f"{name}_y.bin", dtype=np.uint8).astype(np.int64) - 1  # published as 1 to 10

        return Part(_stl10_images(place / f"{name}_X.bin"), card.classes, labels)

    more = place / "unlabeled_X.bin"
    return Dataset(card.name, part("train"), part("test"), unlabeled=_stl10_images(more) if more.is_file() else None)


def _stl10_images(path: Path) -> NDArray[np.uint8]:
    """Images mapped from the file, which is not read yet."""
    return _records(path, 3 * 96 * 96).reshape(-1, 3, 96, 96).transpose(0, 3, 2, 1)  # (N, C, W, H) -> (N, H, W, C)


def _records(path: Path, length: int) -> NDArray[np.uint8]:
    """A file of records of equal length, mapped into memory: (N, length)."""
    total = path.stat().st_size
    if total == 0 or total % length:
        raise UserError(f"{path} has {total:,} bytes, not a multiple of {length:,}: is it complete?")
    return np.memmap(path, dtype=np.uint8, mode="r").reshape(-1, length)


# Reads a file of CIFAR: pixels (N, 3072) and labels (N,).
_ReadFile = Callable[[Path], tuple[NDArray[np.uint8], NDArray[np.integer]]]


def _cifar(train: Sequence[str], test: str, read_file: _ReadFile) -> Reader:
    """A reader for the layout with these files."""

    def read(folder: Path, card: Card) -> Dataset | None:
        place = holding(folder, *train, test)
        if place is None:
            return None

        def part(names: Sequence[str]) -> Part:
            pixels = [read_file(place / name)[0].reshape(-1, 3, 32, 32) for name in names]  # (N, C, H, W)

            def labels() -> Labels:
                return np.concatenate([read_file(place / name)[1] for name in names]).astype(np.int64)

            return Part(np.concatenate(pixels).transpose(0, 2, 3, 1), card.classes, labels)

        return Dataset(card.name, train=part(train), test=part([test]))

    return read


def _binary(path: Path, *, label_bytes: int) -> tuple[NDArray[np.uint8], NDArray[np.integer]]:
    file = _records(path, label_bytes + 3072)
    return file[:, label_bytes:], file[:, 0]  # the first of CIFAR-100's two labels is the superclass


def _pickled(path: Path, *, labels: str) -> tuple[NDArray[np.uint8], NDArray[np.integer]]:
    try:
        with path.open("rb") as file:
            batch = _OnlyArrays(file, encoding="bytes").load()
    except _DAMAGE as error:
        raise UserError(f"{path} is not a CIFAR batch: {error}") from error
    match batch:
        case {b"data": np.ndarray() as pixels, **others} if pixels.dtype == np.uint8 and pixels.shape[1:] == (3072,):
            values = others.get(labels.encode())
            if isinstance(values, list) and all(isinstance(value, int) for value in values):
                return pixels, np.array(values, dtype=np.int64)
    raise UserError(f"{path} is not a CIFAR batch: it does not contain images of 3,072 bytes with a list of {labels}")


class _OnlyArrays(pickle.Unpickler):
    """Loads arrays only. Refuses any other name before it is imported or called."""

    def find_class(self, module_name: str, global_name: str) -> object:
        if (module_name, global_name) not in _ALLOWED:
            raise pickle.UnpicklingError(
                f"it names {module_name}.{global_name}, and only numpy arrays are read from pickles"
            )
        return super().find_class(module_name, global_name)


# The layouts of cifar-10-binary.tar.gz and cifar-10-python.tar.gz, and of their counterparts for CIFAR-100.
read_cifar10_binary = _cifar([f"{name}.bin" for name in _TRAIN_10], "test_batch.bin", partial(_binary, label_bytes=1))
read_cifar10_python = _cifar(_TRAIN_10, "test_batch", partial(_pickled, labels="labels"))
read_cifar100_binary = _cifar(["train.bin"], "test.bin", partial(_binary, label_bytes=2))
read_cifar100_python = _cifar(["train"], "test", partial(_pickled, labels="coarse_labels"))


def read_idx(folder: Path, card: Card) -> Dataset | None:
    """The four files of MNIST, in any spelling of their names."""
    for place in around(folder):
        train, test = _idx_part(place, "train", card), _idx_part(place, "t10k", card)
        if train is not None and test is not None:
            return Dataset(card.name, train=train, test=test)
    return None


def _idx_part(place: Path, name: str, card: Card) -> Part | None:
    images, labels = _find(place, f"{name}-images-idx3-ubyte"), _find(place, f"{name}-labels-idx1-ubyte")
    if images is None or labels is None:
        return None
    return Part(_array(images, dimensions=3), card.classes, lambda: _array(labels, dimensions=1).astype(np.int64))


def _find(place: Path, wanted: str) -> Path | None:
    spellings = (wanted, wanted.replace("-idx", ".idx"))
    names = [f"{spelling}{suffix}" for spelling in spellings for suffix in ("", ".gz")]
    return next((place / name for name in names if (place / name).is_file()), None)


def _array(path: Path, *, dimensions: int) -> NDArray[np.uint8]:
    """An idx file: two zeros, the type (8: bytes), the number of dimensions, their sizes (big-endian), the values."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be unpacked ({error}): is it complete?") from error
    start = 4 + 4 * dimensions
    if len(data) < start or data[:4] != bytes((0, 0, 8, dimensions)):
        raise UserError(f"{path} is not an idx file of bytes with {dimensions} dimensions")
    shape = struct.unpack(f">{dimensions}I", data[4:start])
    if math.prod(shape) != len(data) - start:
        raise UserError(f"{path} says it has {math.prod(shape):,} values, but contains {len(data) - start:,}")
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape)


def read_npz(folder: Path, card: Card) -> Dataset | None:
    """One file with x_train, y_train, x_test and y_test, as in Keras."""
    for path in sorted(folder.glob("*.npz")):
        try:
            with np.load(path, allow_pickle=False) as arrays:
                if {"x_train", "y_train", "x_test", "y_test"} <= set(arrays.files):
                    train, test = (_npz_part(path, name, arrays[f"x_{name}"], card) for name in ("train", "test"))
                    return Dataset(card.name, train=train, test=test)
        except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise UserError(f"{path} cannot be read as arrays: {error}") from error
    return None


def _npz_part(path: Path, name: str, images: NDArray[np.generic], card: Card) -> Part:
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise UserError(f"x_{name} in {path} is {images.dtype} {images.shape}; expected uint8 (N, H, W)")

    def labels() -> Labels:
        with np.load(path, allow_pickle=False) as arrays:
            return np.asarray(arrays[f"y_{name}"]).reshape(-1).astype(np.int64)

    return Part(images.astype(np.uint8).reshape(-1, *images.shape[1:3]), card.classes, labels)


def read_digits(_: Path, card: Card) -> Dataset:
    """scikit-learn's 1,797 handwritten digits of 8 x 8 pixels, for quick trials without a download."""
    images, labels = load_digits(return_X_y=True)  # (N, 64), values 0 to 16
    pixels = np.rint(images * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8)
    return Dataset(card.name, train=Part(pixels, card.classes, lambda: labels))


_SUFFIXES = {".jpg", ".jpeg", ".png"}

# Subfolders with the training images of ImageNet, in the layouts of the challenge, Kaggle and common scripts.
_IMAGENET_TRAIN = ("", "train", "Data/CLS-LOC/train", "ILSVRC/Data/CLS-LOC/train", "ILSVRC2012_img_train")


def read_split(folder: Path, card: Card) -> Dataset | None:
    """`train/<class>/*.jpg` and `val/<class>/*.jpg` (or `test`)."""
    for place in around(folder):
        train, test = _first([place / "train"], card), _first([place / "val", place / "test"], card)
        if train is not None and test is not None:
            return Dataset(card.name, train=train, test=test)
    return None


def read_class_folders(folder: Path, card: Card) -> Dataset | None:
    """`<class>/*.jpg`, without a test set; or the card's classes from the training images of ImageNet."""
    train = _first((outer / inner for outer in around(folder) for inner in _IMAGENET_TRAIN), card)
    return None if train is None else Dataset(card.name, train=train)


def read_tiny_imagenet(folder: Path, card: Card) -> Dataset | None:
    """The layout of tiny-imagenet-200.zip. Its test images have no published labels and are left out."""
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
        class_of = {row[0]: row[1] for row in rows if len(row) > 1}  # the other columns are bounding boxes
        try:
            return np.array([number[class_of[path.name]] for path in test], dtype=np.int64)
        except KeyError as error:
            raise UserError(f"{table} and wnids.txt do not give the class of {error}") from error

    return Dataset(card.name, train=Part(train, classes, train_labels), test=Part(test, classes, test_labels))


def _first(places: Iterable[Path], card: Card) -> Part | None:
    return next((part for place in places if (part := _part(place, card)) is not None), None)


def _part(place: Path, card: Card) -> Part | None:
    """All images of the class folders in `place`, in the order of the classes; None if a class has no folder.

    A folder may be named by the id or the name of the class; a card has both, as in `n01440764 tench`.
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
    """The image files in a folder, sorted by name."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}: is the data set complete?")
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES and path.name[0] != ".")


def _spelled(name: str) -> str:
    return name.lower().replace(" ", "_").replace("-", "_")


READERS: dict[str, Reader] = {
    "STL-10 binary": read_stl10,
    "CIFAR-10 binary": read_cifar10_binary,
    "CIFAR-10 python": read_cifar10_python,
    "CIFAR-100 binary": read_cifar100_binary,
    "CIFAR-100 python": read_cifar100_python,
    "idx": read_idx,
    "npz": read_npz,
    "digits": read_digits,
    "split folders": read_split,
    "class folders": read_class_folders,
    "ImageNet": read_class_folders,
    "Tiny-ImageNet": read_tiny_imagenet,
}
