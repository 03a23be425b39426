"""STL-10, CIFAR-10 and CIFAR-100 with its 20 superclasses (CIFAR-100-20): images as records of bytes, or in pickles.

A record of CIFAR is its label bytes (CIFAR-10: one; CIFAR-100: superclass, class), then red, green and blue, row by
row. STL-10 stores columns instead of rows, and its labels apart; 100,000 of its images have none.
"""

import pickle
import struct
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spice.benchmark.datasets.catalog import Card
from spice.benchmark.datasets.dataset import Dataset, Labels, Part, Reader, holding
from spice.errors import UserError

_TRAIN_10 = [f"data_batch_{number}" for number in range(1, 6)]

# All that the pickle of an array names. The first module was renamed in numpy 2.
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}
# What a damaged or hostile pickle can raise while it is taken apart.
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
    """A view of the file: nothing is read yet."""
    return _records(path, 3 * 96 * 96).reshape(-1, 3, 96, 96).transpose(0, 3, 2, 1)  # (N, C, W, H) -> (N, H, W, C)


def _records(path: Path, length: int) -> NDArray[np.uint8]:
    """A file of equally long records, mapped into memory: (N, length)."""
    total = path.stat().st_size
    if total == 0 or total % length:
        raise UserError(f"{path} has {total:,} bytes, which is not a number of records of {length:,}: is it complete?")
    return np.memmap(path, dtype=np.uint8, mode="r").reshape(-1, length)


# The pixels (N, 3072) of one file of CIFAR, and its labels (N,).
_ReadFile = Callable[[Path], tuple[NDArray[np.uint8], NDArray[np.integer]]]


def _cifar(train: Sequence[str], test: str, read_file: _ReadFile) -> Reader:
    """The layout with these files."""

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
    return file[:, label_bytes:], file[:, 0]  # of CIFAR-100's two labels, the superclass comes first


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
    raise UserError(f"{path} is not a CIFAR batch: it does not hold images of 3,072 bytes with a list of {labels}")


class _OnlyArrays(pickle.Unpickler):
    """Refuses every name but those of an array, before anything behind the name is imported or called."""

    def find_class(self, module_name: str, global_name: str) -> object:
        if (module_name, global_name) not in _ALLOWED:
            raise pickle.UnpicklingError(
                f"it names {module_name}.{global_name}, and only numpy arrays are read from pickles"
            )
        return super().find_class(module_name, global_name)


# As the archives cifar-10-binary.tar.gz, cifar-10-python.tar.gz and those of CIFAR-100 hold them.
read_cifar10_binary = _cifar([f"{name}.bin" for name in _TRAIN_10], "test_batch.bin", partial(_binary, label_bytes=1))
read_cifar10_python = _cifar(_TRAIN_10, "test_batch", partial(_pickled, labels="labels"))
read_cifar100_binary = _cifar(["train.bin"], "test.bin", partial(_binary, label_bytes=2))
read_cifar100_python = _cifar(["train"], "test", partial(_pickled, labels="coarse_labels"))
