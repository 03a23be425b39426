"""Decoded images by position: the interface and small adapters.

Shapes: N images, B of them taken, C channels, S pixels on a side.
"""

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from torch import Tensor


class Images(Protocol):
    """Images of one size, by position."""

    @property
    def size(self) -> int:
        """Pixels on a side, S."""

    @property
    def channels(self) -> int:
        """C: 1 if all images are gray, else 3."""

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
        return self.pixels[positions]


class InColor:
    """The same images with the number of channels that an encoder takes: a gray channel is repeated."""

    def __init__(self, images: Images, channels: int) -> None:
        self.images, self.channels, self.size = images, channels, images.size

    def __len__(self) -> int:
        return len(self.images)

    def take(self, positions: Tensor) -> Tensor:
        return self.images.take(positions).expand(-1, self.channels, -1, -1)


class Subset:
    """Some of the images, by their position in `rows`."""

    def __init__(self, images: Images, rows: NDArray[np.int64]) -> None:
        self.images, self.rows = images, torch.from_numpy(rows)
        self.size, self.channels = images.size, images.channels

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, positions: Tensor) -> Tensor:
        return self.images.take(self.rows[positions])


class Concatenated:
    """Two collections as one."""

    def __init__(self, first: Images, second: Images) -> None:
        self.parts = first, second
        self.size, self.channels = first.size, max(first.channels, second.channels)

    def __len__(self) -> int:
        return len(self.parts[0]) + len(self.parts[1])

    def take(self, positions: Tensor) -> Tensor:
        border = len(self.parts[0])
        out = torch.empty(len(positions), self.channels, self.size, self.size, dtype=torch.uint8)
        for part, here, start in zip(self.parts, (positions < border, positions >= border), (0, border), strict=True):
            out[here] = part.take(positions[here] - start)  # a gray image's channel spreads over three
        return out


class Tiles:
    """Placeholders for vectors without images: gray tiles with the row's number."""

    channels = 1

    def __init__(self, count: int, *, size: int = 160) -> None:
        self.count, self.size = count, size

    def __len__(self) -> int:
        return self.count

    def take(self, positions: Tensor) -> Tensor:
        return torch.from_numpy(np.stack([self._draw(int(row)) for row in positions]))[:, None]

    def _draw(self, row: int) -> NDArray[np.uint8]:
        tile = Image.new("L", (self.size, self.size), 225)
        middle = self.size / 2
        ImageDraw.Draw(tile).text((middle, middle), str(row), fill=70, anchor="mm", font_size=40)
        return np.asarray(tile)


class VectorPictures:
    """The images of vectors, by the vector's row; a tile with its number if there is none."""

    def __init__(self, images: Images, rows: NDArray[np.int64], count: int) -> None:
        self.images, self.tiles = images, Tiles(count, size=images.size)
        self.size, self.channels = images.size, images.channels
        self.places = np.full(count, -1, dtype=np.int64)
        self.places[rows] = np.arange(len(rows))

    def __len__(self) -> int:
        return len(self.tiles)

    def take(self, positions: Tensor) -> Tensor:
        rows = np.asarray(positions)
        places = torch.from_numpy(self.places[rows])
        there = places >= 0
        out = torch.empty(len(rows), self.channels, self.size, self.size, dtype=torch.uint8)
        out[there] = self.images.take(places[there])
        if not bool(there.all()):
            out[~there] = self.tiles.take(torch.from_numpy(rows)[~there])
        return out
