"""Images that are already pixels: arrays, files of arrays, PIL images."""

import hashlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from spice.data.decode import Content
from spice.data.problems import Problem
from spice.data.sources import AnyOrder, Entry, stamp_of
from spice.errors import UserError


class Arrays(AnyOrder):
    """One or more arrays (N, H, W) or (N, H, W, C), one image per row."""

    def __init__(self, arrays: Mapping[str, NDArray[np.generic]], *, label: str, stamp: str = "") -> None:
        self.label = label
        self.stamp = stamp
        self.arrays = arrays
        self.factors = {name: _factor(array, f"{label}[{name}]" if name else label) for name, array in arrays.items()}

    def entries(self) -> Iterator[Entry | Problem]:
        number = 0
        for name, array in self.arrays.items():
            for row in range(len(array)):
                # An array in memory carries no date, so what it holds is the stamp.
                stamp = self.stamp or digest(array[row])
                yield Entry(f"{name}/{row}" if name else str(row), stamp, number, array[row].nbytes)
                number += 1

    def read(self, entry: Entry) -> Content:
        number = entry.number
        for name, array in self.arrays.items():
            if number < len(array):
                return _to_integers(array[number], self.factors[name])
            number -= len(array)
        raise IndexError(entry.number)


class Pictures(AnyOrder):
    """PIL images in a list."""

    def __init__(self, images: Sequence[Image.Image]) -> None:
        self.label = "list of images"
        self.images = images
        self.stamp = uuid.uuid4().hex  # never the same twice: these images carry no date

    def entries(self) -> Iterator[Entry | Problem]:
        for number in range(len(self.images)):
            yield Entry(str(number), self.stamp, number, 0)

    def read(self, entry: Entry) -> Content:
        return self.images[entry.number]


def array_file(path: Path) -> Arrays:
    """A .npy file, mapped into memory, or the arrays of images in a .npz file; arrays of another shape are ignored."""
    stamp = stamp_of(path.stat())
    try:
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return Arrays({"": loaded}, label=str(path), stamp=stamp)
        with loaded:
            arrays = {name: array for name in loaded.files if (array := loaded[name]).ndim in (3, 4)}
    except UserError:
        raise
    except Exception as error:  # numpy lets through what zipfile, zlib and Python's tokenizer say of a damaged file
        raise UserError(f"{path} cannot be read as an array of images: {error}") from error
    if not arrays:
        raise UserError(f"{path} holds no array of images: one of shape (N, H, W) or (N, H, W, C) is needed")
    return Arrays(arrays, label=str(path), stamp=stamp)


def digest(content: Content) -> str:
    """The identity of an image: a hash of the file's bytes, or of its pixels with their shape and type."""
    if isinstance(content, bytes):
        return hashlib.blake2b(content, digest_size=16).hexdigest()
    pixels = np.asarray(content)
    mode = content.mode if isinstance(content, Image.Image) else ""
    key = hashlib.blake2b(f"{pixels.shape} {pixels.dtype.str} {mode}".encode(), digest_size=16)
    key.update(np.ascontiguousarray(pixels).data)
    if isinstance(content, Image.Image) and content.mode == "P":
        key.update(repr(content.getpalette("RGB")).encode())
    return key.hexdigest()


def _factor(array: NDArray[np.generic], label: str) -> float | None:
    """What values are multiplied with to lie in 0..255; None for 8- and 16-bit integers, which say it by their type.

    One factor for the whole array: by its own values alone, a dark image looks like a faint one.
    """
    shape = array.shape
    if array.ndim not in (3, 4) or (array.ndim == 4 and shape[3] not in (1, 3, 4)):
        channels_first = array.ndim == 4 and shape[1] in (1, 3, 4)
        advice = "; move the channels last with array.transpose(0, 2, 3, 1)" if channels_first else ""
        raise UserError(
            f"{label} has shape {shape}, but (N, H, W) or (N, H, W, C) with C of 1, 3 or 4 is needed{advice}"
        )
    if array.dtype.kind not in "buif":
        raise UserError(f"{label} holds {array.dtype}, but numbers are needed")
    if array.dtype in (np.uint8, np.uint16, np.bool_) or array.size == 0:
        return None
    low, high = _range(array)
    if not (low >= 0 and high <= 255):  # also true for NaN
        raise UserError(f"{label} holds values from {low:.4g} to {high:.4g}: give images in 0..1, 0..255 or as uint16")
    return 255.0 if array.dtype.kind == "f" and high <= 1 else 1.0


def _range(array: NDArray[np.generic]) -> tuple[float, float]:
    rows = max(1, (64 << 20) // max(1, array[0].nbytes))
    parts = [array[start : start + rows] for start in range(0, len(array), rows)]  # views, not copies
    return float(min(np.min(part) for part in parts)), float(max(np.max(part) for part in parts))


def _to_integers(row: NDArray[np.generic], factor: float | None) -> NDArray[np.generic]:
    if factor is None:
        return row
    return np.rint(row.astype(np.float64) * factor).astype(np.uint8)
