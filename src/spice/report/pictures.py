"""Thumbnails of a run: one file for each image on a card, and sheets of small pictures of all images.

The folder `pictures` holds `image-ROW.jpg`, `attention-ROW.jpg`, `sheet-NUMBER.jpg` and `pictures.json`.
"""

import base64
import itertools
import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel

from spice.files import folder_written_atomically
from spice.progress import Progress, silent
from spice.runs.records import read_json

Pixels = NDArray[np.uint8]  # (C, S, S)
Take = Callable[[NDArray[np.int64]], Iterable[Pixels]]  # rows (B,) -> B images
Sharp = Callable[[NDArray[np.int64], int], Iterable[Pixels]]  # rows (B,), side in pixels -> B images

# Twice their size on the page, which is up to 60 px, or 132 px for the images nearest to the center.
CARD_SIDE, LARGE_SIDE = 128, 272
# Pixels of all small pictures together, at most: about 7 MB of JPEG.
SHEET_PIXELS = 32_000_000
LARGEST_TILE, SMALLEST_TILE = 96, 40
MOST_TILES = SHEET_PIXELS // SMALLEST_TILE**2  # 20,000
SHEET_COLUMNS = 32
INDEX = "pictures.json"
_QUALITY, _SHEET_QUALITY = 82, 70
_AT_ONCE, _SHEETS_AT_ONCE = 64, 4

# From dark blue through red to light yellow, which reads as low to high with any color vision and in gray.
_HEAT = np.array([[20, 11, 53], [101, 21, 110], [188, 55, 84], [243, 120, 25], [252, 220, 120]], dtype=np.float32)


class Sheets(BaseModel, frozen=True):
    """Where the small pictures are on their sheets: row by row, `columns` by `columns` on each."""

    side: int  # pixels of the images that they were made from
    tile: int
    columns: int
    count: int
    rows: list[int]  # rows of the label table that have a small picture, in order

    def picture(self, folder: Path, row: int) -> Image.Image | None:
        """The small picture of an image, cut out of its sheet; None if it has none."""
        place = bisect_left(self.rows, row)
        if self.rows[place : place + 1] != [row]:
            return None
        number, inside = divmod(place, self.columns**2)
        top, left = (self.tile * part for part in divmod(inside, self.columns))
        return _sheet(folder / f"sheet-{number}.jpg").crop((left, top, left + self.tile, top + self.tile))


class Attention(NamedTuple):
    """Where an image is similar to the center of its cluster."""

    row: int
    map: NDArray[np.float32]  # (h, w) in 0..1


def write_pictures(
    folder: Path,
    take: Take,
    *,
    images: int,
    side: int,
    on_cards: NDArray[np.int64],
    large: NDArray[np.int64],
    attention: Iterable[Attention],
    sharp: Sharp | None = None,
    progress: Progress = silent,
) -> None:
    """Write `folder` atomically: pictures of the images on cards, some of them large, some with attention maps.

    Args:
        take: returns the stored pixels of images.
        sharp: decodes the originals, which may have more pixels; used for the large pictures.
    """
    with folder_written_atomically(folder) as new:
        for row, pixels in _taken(take, np.setdiff1d(on_cards, large)):
            _save(_picture(pixels, CARD_SIDE), new / f"image-{row}.jpg", _QUALITY)
        for row, pixels in _taken(take if sharp is None else lambda rows: sharp(rows, LARGE_SIDE), large):
            _save(_picture(pixels, LARGE_SIDE), new / f"image-{row}.jpg", _QUALITY)
        for row, heat in attention:
            with Image.open(new / f"image-{row}.jpg") as picture:
                _save(overlay(picture, heat), new / f"attention-{row}.jpg", _QUALITY)
        _write_sheets(new, take, images, side, progress)


def as_picture(pixels: Pixels) -> Image.Image:
    """(C, S, S) as an RGB image."""
    planes = [Image.fromarray(plane) for plane in pixels]
    return Image.merge("RGB", planes if len(planes) == 3 else 3 * planes)


def as_jpeg(picture: Image.Image, quality: int) -> bytes:
    """The bytes of a JPEG file."""
    buffer = BytesIO()
    picture.convert("RGB").save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def data_url(jpeg: bytes) -> str:
    """A JPEG file as an address to put into a page."""
    return f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"


def read_sheets(folder: Path) -> Sheets | None:
    """Where the small pictures are; None if there are no pictures."""
    return read_json(folder / INDEX, Sheets, "delete its folder, then run: spice report RUN")


def overlay(picture: Image.Image, attention: NDArray[np.float32]) -> Image.Image:
    """The picture in gray under a heat map. Warm places are similar to the center of its cluster."""
    small = Image.fromarray((attention * 255).round().astype(np.uint8))
    heat = np.asarray(small.resize(picture.size, Image.Resampling.BICUBIC), dtype=np.float32) / 255 * (len(_HEAT) - 1)
    below = np.clip(heat.astype(np.int64), 0, len(_HEAT) - 2)  # (h, w)
    part = (heat - below)[..., None]
    colors = _HEAT[below] * (1 - part) + _HEAT[below + 1] * part  # (h, w, 3)
    gray = np.asarray(picture.convert("L"), dtype=np.float32)[..., None]
    return Image.fromarray((0.45 * gray + 0.55 * colors).round().clip(0, 255).astype(np.uint8))


def tile_side(images: int, side: int) -> int:
    """Side of a small picture in pixels: as large as the budget allows, but not larger than the image."""
    fitting = int((SHEET_PIXELS / max(1, images)) ** 0.5)
    return min(side, int(np.clip(fitting, SMALLEST_TILE, LARGEST_TILE)))


def _write_sheets(folder: Path, take: Take, images: int, side: int, progress: Progress) -> None:
    rows = np.unique(np.linspace(0, images - 1, min(images, MOST_TILES)).astype(np.int64))
    tile, per_sheet = tile_side(images, side), SHEET_COLUMNS**2
    count = -(-len(rows) // per_sheet)

    def make(number: int) -> int:
        here = rows[number * per_sheet : (number + 1) * per_sheet]
        sheet = Image.new("RGB", (SHEET_COLUMNS * tile, -(-len(here) // SHEET_COLUMNS) * tile))
        for place, (_, pixels) in enumerate(_taken(take, here)):
            sheet.paste(_picture(pixels, tile), (place % SHEET_COLUMNS * tile, place // SHEET_COLUMNS * tile))
        _save(sheet, folder / f"sheet-{number}.jpg", _SHEET_QUALITY)
        return len(here)

    with ThreadPoolExecutor(min(_SHEETS_AT_ONCE, os.cpu_count() or 1)) as pool:
        for done in itertools.accumulate(pool.map(make, range(count))):
            progress("thumbnails", done, len(rows))
    sheets = Sheets(side=side, tile=tile, columns=SHEET_COLUMNS, count=count, rows=rows.tolist())
    (folder / INDEX).write_text(sheets.model_dump_json(), encoding="utf-8")


def _taken(take: Take, rows: NDArray[np.int64]) -> Iterator[tuple[int, Pixels]]:
    """Rows with their pixels; several at a time, since images outside the store are decoded in parallel."""
    for start in range(0, len(rows), _AT_ONCE):
        here = rows[start : start + _AT_ONCE]
        yield from zip(here.tolist(), take(here), strict=True)


def _picture(pixels: Pixels, side: int) -> Image.Image:
    picture = as_picture(pixels)
    if picture.width > side:
        # Halving the size first is faster, with no visible loss.
        picture = picture.resize((side, side), Image.Resampling.LANCZOS, reducing_gap=1.0)
    return picture


@lru_cache(maxsize=8)
def _sheet(path: Path) -> Image.Image:
    with Image.open(path, formats=("JPEG",)) as sheet:
        return sheet.convert("RGB")


def _save(picture: Image.Image, path: Path, quality: int) -> None:
    picture.save(path, "JPEG", quality=quality, optimize=True)
