"""MNIST and Fashion-MNIST: four idx files, gzipped or not (as published, and in Debian's package), or one .npz file."""

import gzip
import math
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spice.benchmark.datasets.card import Card
from spice.benchmark.datasets.dataset import Dataset, Labels, Part
from spice.benchmark.datasets.layout import around
from spice.errors import UserError

_IMAGES = {"train": "train-images-idx3-ubyte", "test": "t10k-images-idx3-ubyte"}
_LABELS = {"train": "train-labels-idx1-ubyte", "test": "t10k-labels-idx1-ubyte"}
_UNSIGNED_BYTES = 8  # the code of the only type of value that these files hold


def read_idx(folder: Path, card: Card) -> Dataset | None:
    """The four files of the MNIST page, in any of their spellings."""
    for place in around(folder):
        files = {wanted: _find(place, wanted) for wanted in (*_IMAGES.values(), *_LABELS.values())}
        if None not in files.values():
            parts = {
                part: _part(_array(files[_IMAGES[part]], dimensions=3), files[_LABELS[part]], card) for part in _IMAGES
            }
            return Dataset(card.name, train=parts["train"], test=parts["test"])
    return None


def read_npz(folder: Path, card: Card) -> Dataset | None:
    """One file with x_train, y_train, x_test and y_test, as Keras and others pass them on."""
    for path in sorted(folder.glob("*.npz")):
        try:
            with np.load(path, allow_pickle=False) as arrays:
                if {"x_train", "y_train", "x_test", "y_test"} <= set(arrays.files):
                    return Dataset(
                        card.name,
                        train=_part_of_npz(path, "train", arrays["x_train"], card),
                        test=_part_of_npz(path, "test", arrays["x_test"], card),
                    )
        except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise UserError(f"{path} cannot be read as arrays: {error}") from error
    return None


def _find(place: Path, wanted: str) -> Path | None:
    spellings = (wanted, wanted.replace("-idx", ".idx"))
    names = [f"{spelling}{suffix}" for spelling in spellings for suffix in ("", ".gz")]
    return next((place / name for name in names if (place / name).is_file()), None)


def _part(images: NDArray[np.uint8], labels: Path | None, card: Card) -> Part:
    return Part(images, card.classes, lambda: _array(labels, dimensions=1).astype(np.int64))


def _part_of_npz(path: Path, name: str, images: NDArray[np.generic], card: Card) -> Part:
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise UserError(f"x_{name} in {path} is {images.dtype} {images.shape}, but bytes of shape (N, H, W) are needed")

    def labels() -> Labels:
        with np.load(path, allow_pickle=False) as arrays:
            return np.asarray(arrays[f"y_{name}"]).reshape(-1).astype(np.int64)

    return Part(images.astype(np.uint8).reshape(-1, *images.shape[1:3]), card.classes, labels)


def _array(path: Path | None, *, dimensions: int) -> NDArray[np.uint8]:
    """An idx file: two zero bytes, the type, the number of dimensions, their sizes (big-endian), the values."""
    assert path is not None
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be unpacked ({error}): is it complete?") from error
    start = 4 + 4 * dimensions
    if len(data) < start or data[:4] != bytes((0, 0, _UNSIGNED_BYTES, dimensions)):
        raise UserError(f"{path} is not an idx file of bytes with {dimensions} dimensions")
    shape = struct.unpack(f">{dimensions}I", data[4:start])
    if math.prod(shape) != len(data) - start:
        raise UserError(f"{path} says it has {math.prod(shape):,} values, but holds {len(data) - start:,}")
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape)
