"""Pictures of a run's images: small ones from the pixels that the run stores, large ones from the originals.

The page requests small pictures in strips of many. If the run stores no pixels, they are made from the originals.
"""

import threading
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image, ImageOps

from spice.data.decode import digest, whole_picture
from spice.data.pixels import COLOR, GRAY, map_pixels
from spice.data.problems import BadImageError
from spice.data.recognize import open_source
from spice.data.sources import Entry, Source
from spice.errors import UserError
from spice.files import printable
from spice.report.pictures import Sheets, as_jpeg, as_picture, read_sheets
from spice.runs import Result
from spice.runs.artifacts import IMAGES, PICTURES
from spice.runs.folder import STORE
from spice.tables import read_parquet

LARGEST_TILE, LARGEST_PICTURE = 256, 2048
MOST_IN_STRIP = 64
_TILES_KEPT = 4096
_QUALITY, _LARGE_QUALITY = 80, 90


class NoPictureError(Exception):
    """No picture of this image is left."""


class _Store(NamedTuple):
    """The decoded images that the run stores."""

    side: int
    gray_images: NDArray[np.uint8]  # (n, 1, side, side)
    color_images: NDArray[np.uint8]  # (n, 3, side, side)
    is_gray: NDArray[np.bool_]  # (N,) which of the two files an image is in
    place: NDArray[np.int64]  # (N,) its place in that file; -1 if it is in neither


class Pictures:
    """Pictures by row of the label table. Safe to use from several threads."""

    def __init__(self, result: Result) -> None:
        self._result = result
        self._names = result.labels.path
        self._hashes = read_parquet(result.need(IMAGES), ["hash"]).column("hash")
        self._tile = lru_cache(_TILES_KEPT)(self._make_tile)
        self._opening = threading.Lock()

    @property
    def side(self) -> int:
        """Side of the stored pictures in pixels; 0 if the run stores none."""
        return self._store.side if self._store is not None else 0

    def strip(self, rows: list[int], side: int) -> bytes:
        """Small square pictures side by side, as one JPEG; gray if there is no picture."""
        strip = Image.new("RGB", (side * len(rows), side), (128, 128, 128))
        for place, row in enumerate(rows):
            try:
                strip.paste(self._tile(row, side), (place * side, 0))
            except NoPictureError:
                continue
        return as_jpeg(strip, _QUALITY)

    def large(self, row: int, side: int) -> bytes:
        """The whole original, upright, as a JPEG of at most `side` pixels; if it is gone, the best picture left."""
        try:
            return as_jpeg(self._original(row, side), _LARGE_QUALITY)
        except NoPictureError:
            return as_jpeg(self._tile(row, LARGEST_TILE), _LARGE_QUALITY)

    def _original(self, row: int, side: int) -> Image.Image:
        """The image in the source, if it has not changed since the run: upright, at most `side` pixels long."""
        with self._opening:
            source, entries = self._opened
        entry = entries.get(self._names[row])
        if entry is None or source is None:
            raise NoPictureError
        try:
            content = source.read(entry)
        except (BadImageError, OSError, UserError):
            raise NoPictureError from None
        # Only images of the run pass the hash, wherever a name or link in the folder leads by now.
        if digest(content) != self._hashes[row].as_py():
            raise NoPictureError
        try:
            return whole_picture(content, side)
        except BadImageError:
            raise NoPictureError from None

    def _make_tile(self, row: int, side: int) -> Image.Image:
        pixels = self._stored(row)
        if pixels is None:
            return self._tile_of_original(row, side)
        picture = as_picture(pixels)
        return picture if picture.width == side else picture.resize((side, side), Image.Resampling.BILINEAR)

    def _tile_of_original(self, row: int, side: int) -> Image.Image:
        try:
            picture = self._original(row, 2 * side).convert("RGB")
        except NoPictureError:
            return self._from_sheet(row, side)
        return ImageOps.fit(picture, (side, side), Image.Resampling.BILINEAR)

    def _from_sheet(self, row: int, side: int) -> Image.Image:
        """From the report's small pictures, which remain if the stored pixels and the originals are gone."""
        try:
            picture = self._sheets and self._sheets.picture(self._result / PICTURES, row)
        except OSError:
            picture = None
        if not picture:
            raise NoPictureError
        return picture.resize((side, side), Image.Resampling.BICUBIC)

    def _stored(self, row: int) -> NDArray[np.uint8] | None:
        """Pixels (C, S, S) from the run's store, or None."""
        store = self._store
        if store is None or store.place[row] < 0:
            return None
        images = store.gray_images if store.is_gray[row] else store.color_images
        pixels: NDArray[np.uint8] = images[store.place[row]]
        return pixels

    @cached_property
    def _store(self) -> _Store | None:
        sizes = [int(path.name) for path in (self._result.run / STORE).glob("*") if path.name.isdecimal()]
        for size in sorted(sizes, reverse=True):
            folder = self._result.run / STORE / str(size)
            try:
                table = read_parquet(folder / IMAGES.name, ["path", "hash", "gray", "row"])
                gray, color = map_pixels(folder / GRAY, 1, size), map_pixels(folder / COLOR, 3, size)
            except (OSError, ValueError):
                continue
            return _Store(size, gray, color, *self._rows_in(table))
        return None

    def _rows_in(self, table: pa.Table) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """The places of this result's images in a store, which may hold more images by now."""
        gray, rows = np.asarray(table["gray"]).astype(np.bool_), np.asarray(table["row"]).astype(np.int64)
        names = pa.chunked_array([self._names], pa.string())
        if table["path"].equals(names) and table["hash"].equals(self._hashes):
            return gray, rows
        keys = zip(table["path"].to_pylist(), table["hash"].to_pylist(), strict=True)
        held = {key: line for line, key in enumerate(keys)}
        wanted = zip(self._names, self._hashes.to_pylist(), strict=True)
        lines = np.array([held.get(key, -1) for key in wanted], dtype=np.int64)
        return gray[lines], np.where(lines >= 0, rows[lines], -1)

    @cached_property
    def _opened(self) -> tuple[Source | None, dict[str, Entry]]:
        """The run's source and its entries by name; opened when the first original is needed."""
        given = self._result.manifest.source
        try:
            source = open_source(given, leave_out=[self._result.run]) if given is not None else None
            entries = source.listing()[0] if source is not None else []
        except (UserError, OSError):
            return None, {}
        return source, {printable(entry.name): entry for entry in entries}

    @cached_property
    def _sheets(self) -> Sheets | None:
        return read_sheets(self._result / PICTURES)
