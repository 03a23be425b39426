"""Random parameters of views, drawn on the CPU for a whole batch: a row of uniform numbers for each image.

A view depends on the generator and on the row of the image, not on the other images, the device or the number of
processes: each process draws the numbers of the whole batch and keeps its own rows. Parameters are computed in NumPy,
which is three times faster than torch for small arrays.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


class Uniform:
    """Uniform numbers in [0, 1), a row for each image, which are used up column by column."""

    def __init__(
        self, count: int, columns: int, generator: torch.Generator, *, rows: Tensor | None = None, of: int | None = None
    ) -> None:
        """For `count` images, which are `rows` of a batch of `of` images (by default, the batch itself)."""
        if rows is None:
            rows, of = torch.arange(count), count
        if of is None or len(rows) != count:
            raise ValueError(f"{count} images need {count} rows and the size of the whole batch, got {len(rows)}, {of}")
        self._numbers: Floats = torch.rand(of, columns, generator=generator)[rows].numpy()  # (B, columns)
        self._used = 0

    def column(self) -> Floats:
        """The next number of every image, (B,)."""
        return self.columns(1)[:, 0]

    def columns(self, count: int) -> Floats:
        """The next `count` numbers of every image, (B, count)."""
        start, self._used = self._used, self._used + count
        if self._used > self._numbers.shape[1]:
            raise ValueError(f"cannot take {self._used} numbers of {self._numbers.shape[1]}")
        return self._numbers[:, start : self._used]


def between(low: float, high: float, uniforms: Floats) -> Floats:
    """Uniform in [low, high)."""
    return low + (high - low) * uniforms


def integers(low: int, high: int, uniforms: Floats) -> Integers:
    """Uniform over low, ..., high, both included."""
    return low + np.minimum((uniforms * (high - low + 1)).astype(np.int64), high - low)


class Boxes(NamedTuple):
    """One rectangle of whole pixels per image, each (B,)."""

    top: Floats
    left: Floats
    height: Floats
    width: Floats


ATTEMPTS = 10
CROP_COLUMNS = 2 * ATTEMPTS + 2


def crops(
    uniforms: Uniform, height: int, width: int, *, scale: tuple[float, float], ratio: tuple[float, float]
) -> Boxes:
    """Boxes of a random share of the area and a random aspect ratio (log-uniform), at random places.

    As in RandomResizedCrop: the first of ten attempts that fits into the image, or else the largest central box with an
    allowed ratio.
    """
    area = height * width * between(*scale, uniforms.columns(ATTEMPTS))  # (B, attempts)
    aspect = np.exp(between(math.log(ratio[0]), math.log(ratio[1]), uniforms.columns(ATTEMPTS)))
    widths = np.rint(np.sqrt(area * aspect))
    heights = np.rint(np.sqrt(area / aspect))
    fits = (widths >= 1) & (widths <= width) & (heights >= 1) & (heights <= height)
    image, first = np.arange(len(fits)), fits.argmax(axis=1)
    none = ~fits[image, first]
    chosen_width = np.where(none, np.float32(min(width, round(height * ratio[1]))), widths[image, first])
    chosen_height = np.where(none, np.float32(min(height, round(width / ratio[0]))), heights[image, first])
    top = _place(height - chosen_height, uniforms.column(), center=none)
    left = _place(width - chosen_width, uniforms.column(), center=none)
    return Boxes(top, left, chosen_height, chosen_width)


def _place(room: Floats, uniforms: Floats, *, center: Booleans) -> Floats:
    return np.floor(np.where(center, room / 2, np.minimum(uniforms * (room + 1), room)))
