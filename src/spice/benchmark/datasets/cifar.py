"""CIFAR-10, and CIFAR-100 with its 20 superclasses (CIFAR-100-20), in the binary and in the python form.

A binary record is the label bytes (CIFAR-10: one; CIFAR-100: superclass, class), then red, green and blue, row by row.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spice.benchmark.datasets.card import Card
from spice.benchmark.datasets.dataset import Dataset, Labels, Part
from spice.benchmark.datasets.layout import holding, records
from spice.benchmark.datasets.pickles import Batch, read_batch

_SIDE = 32
_PIXELS = 3 * _SIDE * _SIDE
_TRAIN_10 = [f"data_batch_{number}" for number in range(1, 6)]


def read_cifar10_binary(folder: Path, card: Card) -> Dataset | None:
    """The layout of cifar-10-binary.tar.gz."""
    return _binary(folder, card, train=[f"{name}.bin" for name in _TRAIN_10], test="test_batch.bin", label_bytes=1)


def read_cifar100_binary(folder: Path, card: Card) -> Dataset | None:
    """The layout of cifar-100-binary.tar.gz."""
    return _binary(folder, card, train=["train.bin"], test="test.bin", label_bytes=2)


def read_cifar10_python(folder: Path, card: Card) -> Dataset | None:
    """The layout of cifar-10-python.tar.gz."""
    return _python(folder, card, train=_TRAIN_10, test="test_batch", labels="labels")


def read_cifar100_python(folder: Path, card: Card) -> Dataset | None:
    """The layout of cifar-100-python.tar.gz."""
    return _python(folder, card, train=["train"], test="test", labels="coarse_labels")


def _binary(folder: Path, card: Card, *, train: Sequence[str], test: str, label_bytes: int) -> Dataset | None:
    place = holding(folder, *train, test)
    if place is None:
        return None

    def part(names: Sequence[str]) -> Part:
        files = [records(place / name, label_bytes + _PIXELS) for name in names]
        images = np.concatenate([_upright(file[:, label_bytes:]) for file in files])
        # Of CIFAR-100's two labels the superclass comes first.
        return Part(images, card.classes, lambda: np.concatenate([file[:, 0] for file in files]).astype(np.int64))

    return Dataset(card.name, train=part(train), test=part([test]))


def _python(folder: Path, card: Card, *, train: Sequence[str], test: str, labels: str) -> Dataset | None:
    place = holding(folder, *train, test)
    if place is None:
        return None

    def part(names: Sequence[str]) -> Part:
        def read() -> list[Batch]:
            return [read_batch(place / name, labels=labels) for name in names]

        def read_labels() -> Labels:
            return np.concatenate([batch.labels for batch in read()])

        return Part(np.concatenate([_upright(batch.pixels) for batch in read()]), card.classes, read_labels)

    return Dataset(card.name, train=part(train), test=part([test]))


def _upright(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return pixels.reshape(-1, 3, _SIDE, _SIDE).transpose(0, 2, 3, 1)  # (N, C * H * W) -> (N, H, W, C)
