"""Decoded images at the working size, in memory-mapped files of uint8.

Gray and color images are in two files, in the order in which they were read. Images beyond the store's size limit are
in neither, and are decoded on demand.
"""

import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spice.data.collection import Collection
from spice.data.decode import available_cores, decode, digest, pixel_hash
from spice.data.pixels import COLOR, GRAY, map_pixels
from spice.data.problems import BadImageError
from spice.data.sources import Entry, Source
from spice.errors import UserError
from spice.files import printable

if TYPE_CHECKING:
    from torch import Tensor

# Images that are not in the store are kept in memory up to this size: enough to take one batch several times.
_CACHE_BYTES = 64 << 20


class DamagedStoreError(UserError):
    """The store is damaged: the images have to be read again."""


class ImageStore:
    """The images of a collection at the working size, by position. Each is checked for damage on its first use.

    Args:
        verified: (N,) images that this process has just written, which need no check.
    """

    def __init__(
        self,
        folder: Path,
        collection: Collection,
        size: int,
        originals: "Originals | None" = None,
        *,
        verified: NDArray[np.bool_] | None = None,
    ) -> None:
        self.collection = collection
        self.size = size
        self.channels = 1 if bool(collection.gray.all()) else 3
        self._gray, self._rows = collection.gray, collection.rows
        self._files = {True: map_pixels(folder / GRAY, 1, size), False: map_pixels(folder / COLOR, 3, size)}
        self._originals = originals
        self._on_demand = OnDemand(originals, size) if originals and bool((collection.rows < 0).any()) else None
        self._folder, self._hashes = folder, collection.table["pixels"]
        self._unchecked = np.ones(len(collection), dtype=np.bool_) if verified is None else ~verified

    def __len__(self) -> int:
        return len(self.collection)

    def take(self, positions: "Tensor | Sequence[int] | NDArray[np.int64]") -> "Tensor":
        """The images at `positions`, uint8 (B, C, S, S). C is 1 if every image of the collection is gray, else 3."""
        import torch  # late: modules that must not import torch use this package

        wanted = np.asarray(positions, dtype=np.int64)
        if wanted.size and not (wanted.min() >= 0 and wanted.max() < len(self)):
            raise IndexError(f"positions run from {wanted.min()} to {wanted.max()}, but there are {len(self)} images")
        gray, rows = self._gray[wanted], self._rows[wanted]
        out = np.empty((len(wanted), self.channels, self.size, self.size), dtype=np.uint8)
        for is_gray, file in self._files.items():
            here = np.flatnonzero((gray == is_gray) & (rows >= 0))
            if len(here):
                found = file[rows[here]]
                self._check(wanted[here], found)
                out[here] = found  # the one channel of a gray image spreads over three
        if self._on_demand is not None:
            elsewhere = np.flatnonzero(rows < 0)
            for place, pixels in zip(elsewhere, self._on_demand.take(wanted[elsewhere].tolist()), strict=True):
                out[place] = pixels
        return torch.from_numpy(out)

    def sharp(self, positions: NDArray[np.int64], size: int) -> "list[NDArray[np.uint8]]":
        """The images (C, s, s) with s up to `size`, decoded from the originals where these are larger."""
        found: list[NDArray[np.uint8]] = list(self.take(positions).numpy())
        if self._originals is None or not self._originals.source.random_access or size <= self.size:
            return found
        table = self.collection.table
        short = np.minimum(np.asarray(table["width"]), np.asarray(table["height"]))[positions]
        larger = np.flatnonzero(short > self.size)
        originals = OnDemand(self._originals, size).take_unchanged(positions[larger])
        for place, original in zip(larger, originals, strict=True):
            if original is not None:
                found[place] = original
        return found

    def _check(self, positions: NDArray[np.int64], pixels: NDArray[np.uint8]) -> None:
        """Compare pixels with the hashes of what was decoded, once for every image."""
        for place in np.flatnonzero(self._unchecked[positions]):
            position = int(positions[place])
            if pixel_hash(pixels[place]) != self._hashes[position].as_py():
                name = self.collection.table["path"][position].as_py()
                raise DamagedStoreError(
                    f"the decoded images in {self._folder} are damaged (at {name}); reread the images with --rescan"
                )
            self._unchecked[position] = False


class Originals(NamedTuple):
    """The original images of a collection, in their source."""

    source: Source
    entries: Sequence[Entry]
    collection: Collection


class OnDemand:
    """Original images decoded at one size when they are needed, with a small cache."""

    def __init__(self, originals: Originals, size: int) -> None:
        self._source, self._size = originals.source, size
        self._entries = {entry.number: entry for entry in originals.entries}
        self._numbers = originals.collection.numbers
        self._hashes = originals.collection.table.column("hash")
        self._pool = ThreadPoolExecutor(available_cores())
        self._pixels = lru_cache(max(1, _CACHE_BYTES // (3 * size * size)))(self._decode)

    def take(self, positions: Sequence[int]) -> list[NDArray[np.uint8]]:
        """The pixels (C, S, S) of the images at these positions."""
        return list(self._pool.map(self._pixels, positions))

    def take_unchanged(self, positions: Iterable[int]) -> "list[NDArray[np.uint8] | None]":
        """The same; None if an image has changed, or can no longer be read."""

        def found(position: int) -> NDArray[np.uint8] | None:
            try:
                return self._decode(int(position))
            except UserError:
                return None

        return list(self._pool.map(found, positions))

    def _decode(self, position: int) -> NDArray[np.uint8]:
        entry = self._entries.get(int(self._numbers[position]))
        if entry is None:
            raise UserError(f"{self._source.label} has fewer images than when it was read; run again with --rescan")
        try:
            content = self._source.read(entry)
            pixels = decode(content, self._size, max_pixels=sys.maxsize).pixels  # it was small enough before
        except (BadImageError, OSError) as error:
            raise UserError(
                f"{printable(entry.name)} can no longer be read ({error}); run again with --rescan"
            ) from error
        if digest(content) != self._hashes[position].as_py():
            raise UserError(f"{printable(entry.name)} has changed since it was read; run again with --rescan")
        return pixels
