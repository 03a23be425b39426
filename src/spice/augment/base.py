"""The base of all recipes: settings, normalization, and processing in portions on a CPU.

A recipe takes uint8 images (B, C, H, W) and returns normalized float views (B, C, size, size) on the same device.
Its random parameters come from the generator alone (see `draws`). A process that holds only some images of a batch
passes their rows, `recipe(images, generator, rows=rows, of=batch_size)`, and gets the views that one process would.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from spice.augment import draws
from spice.settings import AugmentSettings, Normalization

# On a CPU, images are processed in portions that fit a core's own cache.
CACHED_FLOATS = 200_000


@dataclass(frozen=True)
class Recipe(ABC):
    """Makes views of a batch."""

    settings: AugmentSettings
    size: int
    normalization: Normalization

    def __call__(
        self, images: Tensor, generator: torch.Generator, *, rows: Tensor | None = None, of: int | None = None
    ) -> Tensor:
        """Views of `images`, which are `rows` of a batch of `of` images (by default, the batch itself)."""
        self._check(images)
        # Allocated outside inference mode, so that networks can train on it; filled inside, where small steps are fast.
        views = torch.empty(len(images), images.shape[1], self.size, self.size, device=images.device)
        with torch.inference_mode():
            uniforms = draws.uniform(len(images), self._columns, generator, rows=rows, of=of)
            if len(images):
                self._fill(views, images, uniforms)
        return views

    @property
    @abstractmethod
    def _columns(self) -> int:
        """How many uniform numbers each image needs."""

    @abstractmethod
    def _fill(self, views: Tensor, images: Tensor, uniforms: draws.Uniform) -> None:
        """Write the views of `images` to `views`."""

    def _mirror(self, uniforms: draws.Uniform) -> draws.Booleans:
        return uniforms.column() < (0.5 if self.settings.flip else 0.0)

    def _scale_and_offset(self, device: torch.device, *, full: float) -> tuple[Tensor, Tensor]:
        """A factor and an offset to subtract, which normalize values in [0, full]; each (C, 1, 1)."""
        mean, std = self.normalization.mean, self.normalization.std
        scale = [[[1.0 / (full * deviation)]] for deviation in std]
        offset = [[[level / deviation]] for level, deviation in zip(mean, std, strict=True)]
        return torch.tensor(scale, device=device), torch.tensor(offset, device=device)

    def _fill_normalized(self, views: Tensor, images: Tensor) -> None:
        scale, offset = self._scale_and_offset(views.device, full=255.0)
        for part in portions(views):
            views[part].copy_(images[part]).mul_(scale).sub_(offset)

    def _check(self, images: Tensor) -> None:
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] not in (1, 3):
            given = f"{images.dtype} {tuple(images.shape)}"
            raise ValueError(f"images must be uint8 (B, C, H, W) with 1 or 3 channels, got {given}")
        if not len(self.normalization.mean) == len(self.normalization.std) == images.shape[1]:
            channels = len(self.normalization.mean)
            raise ValueError(f"the normalization is for {channels} channels, the images have {images.shape[1]}")


def portions(images: Tensor, start: int = 0, end: int | None = None) -> Iterator[slice]:
    """Slices of `images` from `start` to `end`: on a CPU small enough for its cache, elsewhere one."""
    end = len(images) if end is None else end
    count = max(1, end - start)
    if images.device.type == "cpu":
        count = max(1, CACHED_FLOATS // max(1, images[0].numel()))
    for first in range(start, end, count):
        yield slice(first, min(first + count, end))
