"""What a stage asks of images, whatever they are held in: decoded pixels by position.

Shapes: N images, B of them taken, C channels, S pixels on a side.
"""

from typing import Protocol

import torch
from torch import Tensor


class Images(Protocol):
    """Images of one size, by position."""

    @property
    def size(self) -> int:
        """Pixels on a side, S."""

    @property
    def channels(self) -> int:
        """C: 1 where all images are gray, else 3."""

    def __len__(self) -> int: ...

    def take(self, positions: Tensor) -> Tensor:
        """uint8 (B, C, S, S)."""


class InMemory:
    """Images held as one tensor (N, C, S, S)."""

    def __init__(self, pixels: Tensor) -> None:
        self.pixels = pixels
        self.channels, self.size = pixels.shape[1], pixels.shape[2]

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, positions: Tensor) -> Tensor:
        """uint8 (B, C, S, S)."""
        return self.pixels[positions]


class InColor:
    """The same images in as many channels as an encoder takes: a gray image's one channel serves as three."""

    def __init__(self, images: Images, channels: int) -> None:
        self.images, self.channels, self.size = images, channels, images.size

    def __len__(self) -> int:
        return len(self.images)

    def take(self, positions: Tensor) -> Tensor:
        """uint8 (B, C, S, S)."""
        return self.images.take(positions).expand(-1, self.channels, -1, -1)


class Combined:
    """Two collections as one, the first's images first."""

    def __init__(self, first: Images, second: Images) -> None:
        self.parts = first, second
        self.size, self.channels = first.size, max(first.channels, second.channels)

    def __len__(self) -> int:
        return len(self.parts[0]) + len(self.parts[1])

    def take(self, positions: Tensor) -> Tensor:
        """uint8 (B, C, S, S)."""
        border = len(self.parts[0])
        out = torch.empty(len(positions), self.channels, self.size, self.size, dtype=torch.uint8)
        for part, here, start in zip(self.parts, (positions < border, positions >= border), (0, border), strict=True):
            out[here] = part.take(positions[here] - start)  # a gray image's channel spreads over three
        return out
