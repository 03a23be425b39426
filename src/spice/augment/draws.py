"""Random parameters of views: drawn on the CPU for a whole batch, one row of uniform numbers per image.

An image's view depends on the generator and on the image's row, not on the other images, the device, or how many
processes share the batch: each draws the numbers of the whole batch and keeps its own rows.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Uniform:
    """Uniform numbers in [0, 1), a row per image, handed out column by column."""

    def __init__(self, numbers: Tensor) -> None:
        self._numbers = numbers  # (B, columns)
        self._used = 0

    def column(self) -> Tensor:
        """The next number of every image, (B,)."""
        return self.columns(1)[:, 0]

    def columns(self, count: int) -> Tensor:
        """The next `count` numbers of every image, (B, count)."""
        start, self._used = self._used, self._used + count
        if self._used > self._numbers.shape[1]:
            raise ValueError(f"{self._used} numbers asked for, {self._numbers.shape[1]} drawn")
        return self._numbers[:, start : self._used]


def uniform(
    count: int, columns: int, generator: torch.Generator, *, rows: Tensor | None = None, of: int | None = None
) -> Uniform:
    """Numbers for `count` images, which are `rows` of a batch of `of` images (by default, the batch itself)."""
    if rows is None:
        return Uniform(torch.rand(count, columns, generator=generator))
    if of is None or len(rows) != count:
        raise ValueError(
            f"{count} images need their {count} rows and the size of the whole batch; got {len(rows)}, {of}"
        )
    return Uniform(torch.rand(of, columns, generator=generator)[rows])


def between(low: float, high: float, uniforms: Tensor) -> Tensor:
    """Uniform in [low, high)."""
    return low + (high - low) * uniforms


def integers(low: int, high: int, uniforms: Tensor) -> Tensor:
    """Uniform over low, ..., high, both included."""
    return low + (uniforms * (high - low + 1)).long().clamp_(max=high - low)


class Boxes(NamedTuple):
    """One rectangle of whole pixels per image, each (B,)."""

    top: Tensor
    left: Tensor
    height: Tensor
    width: Tensor


ATTEMPTS = 10
CROP_COLUMNS = 2 * ATTEMPTS + 2


def crops(
    uniforms: Uniform, height: int, width: int, *, scale: tuple[float, float], ratio: tuple[float, float]
) -> Boxes:
    """Boxes of a random share of the area and a random aspect ratio (log-uniform), wherever they fit.

    The rule of RandomResizedCrop: the first of ten attempts that fits; failing all, the largest central box whose
    ratio is allowed.
    """
    area = height * width * between(*scale, uniforms.columns(ATTEMPTS))  # (B, attempts)
    log_ratio = torch.tensor(ratio).log()
    aspect = between(log_ratio[0].item(), log_ratio[1].item(), uniforms.columns(ATTEMPTS)).exp()
    widths = (area * aspect).sqrt().round()
    heights = (area / aspect).sqrt().round()
    fits = (widths >= 1) & (widths <= width) & (heights >= 1) & (heights <= height)
    first = fits.int().argmax(dim=1, keepdim=True)
    fallback_width = min(width, round(height * ratio[1]))
    fallback_height = min(height, round(width / ratio[0]))
    none = ~fits.any(dim=1)
    chosen_width = torch.where(none, fallback_width, widths.gather(1, first)[:, 0]).long()
    chosen_height = torch.where(none, fallback_height, heights.gather(1, first)[:, 0]).long()
    top = _place(height - chosen_height, uniforms.column(), center=none)
    left = _place(width - chosen_width, uniforms.column(), center=none)
    return Boxes(top, left, chosen_height, chosen_width)


def _place(room: Tensor, uniforms: Tensor, *, center: Tensor) -> Tensor:
    anywhere = (uniforms * (room + 1)).long().minimum(room)
    return torch.where(center, room // 2, anywhere)
