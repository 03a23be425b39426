"""MNIST and Fashion-MNIST: four idx files, gzipped or not (as published, and in Debian's package), or one .npz file.

And the digits that come with scikit-learn.
"""

import gzip
import math
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from spice.benchmark.datasets.catalog import Card
from spice.benchmark.datasets.dataset import Dataset, Labels, Part, around
from spice.errors import UserError

_UNSIGNED_BYTES = 8  # the code of the only type of value that these files hold


def read_idx(folder: Path, card: Card) -> Dataset | None:
    """The four files of the MNIST page, in any of their spellings."""
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
    """An idx file: two zero bytes, the type, the number of dimensions, their sizes (big-endian), the values."""
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


def read_npz(folder: Path, card: Card) -> Dataset | None:
    """One file with x_train, y_train, x_test and y_test, as Keras and others pass them on."""
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
        raise UserError(f"x_{name} in {path} is {images.dtype} {images.shape}, but bytes of shape (N, H, W) are needed")

    def labels() -> Labels:
        with np.load(path, allow_pickle=False) as arrays:
            return np.asarray(arrays[f"y_{name}"]).reshape(-1).astype(np.int64)

    return Part(images.astype(np.uint8).reshape(-1, *images.shape[1:3]), card.classes, labels)


def read_digits(_: Path, card: Card) -> Dataset:
    """scikit-learn's 1,797 handwritten digits of 8 x 8 pixels, for trials of a second: nothing to download."""
    images, labels = load_digits(return_X_y=True)  # (N, 64), values 0 to 16
    pixels = np.rint(images * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8)
    return Dataset(card.name, train=Part(pixels, card.classes, lambda: labels))
