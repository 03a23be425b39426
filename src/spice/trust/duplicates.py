"""Near-duplicates: pairs of images with similar features and similar pixels.

Similar features alone are not enough, because different pictures of one scene have them too. So the pixels of each pair
are compared. One image may be a crop of the other, or brighter, smaller or mirrored.

Shapes: N images, S neighbors, P pairs, W windows, G x G pixels.
"""

from collections.abc import Callable, Sequence
from functools import cache
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SIMILAR = 0.7  # cosine of features: pairs below are not compared
NEAREST = 3  # an image is compared with this many neighbors; other copies are found through these
SAME = 0.9  # correlation of pixels: pairs below are not near-duplicates
# Correlation of detail: pairs below are not near-duplicates. Shading alone is similar in any two pictures of a bright
# sky over dark land. 99 % of modified copies have at least 0.78, other photos with the same shading at most 0.5.
SAME_DETAIL = 0.6

SIDE = 64  # pixels on a side of the gray pictures that are compared
_GRID = 16  # sampled points on a side
_SHARES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)  # of width and height in a window
_STEP = 0.05  # between windows, in shares of the side
_PAIRS = 512  # compared at once, to limit memory

Grays = NDArray[np.float32]


class Pairs(NamedTuple):
    """Pairs of images."""

    first: NDArray[np.int64]  # (P,)
    second: NDArray[np.int64]  # (P,)
    likeness: NDArray[np.float32]  # (P,) cosine of features, or correlation of pixels

    def above(self, threshold: float) -> "Pairs":
        """The pairs with a likeness of at least `threshold`."""
        kept = self.likeness >= threshold
        return Pairs(self.first[kept], self.second[kept], self.likeness[kept])


def similar_pairs(neighbors: NDArray[np.int64], similarities: NDArray[np.float32], threshold: float = SIMILAR) -> Pairs:
    """The pairs with a similarity of at least `threshold`, each once, from neighbors and similarities (N, S)."""
    count = min(NEAREST, neighbors.shape[1])
    rows, places = np.nonzero(similarities[:, :count] >= threshold)
    pairs = np.stack([rows, neighbors[rows, places]], axis=1)  # (P, 2)
    pairs.sort(axis=1)
    unique, first = np.unique(pairs, axis=0, return_index=True)
    return Pairs(unique[:, 0], unique[:, 1], similarities[rows, places][first])


def compare_pixels(pairs: Pairs, gray: Callable[[NDArray[np.int64]], Grays]) -> Pairs:
    """The same pairs with the correlation of their pixels. `gray` returns gray pictures (B, SIDE, SIDE) of rows."""
    likeness = np.empty(len(pairs.first), dtype=np.float32)
    for start in range(0, len(likeness), _PAIRS):
        part = slice(start, start + _PAIRS)
        ends = np.stack([pairs.first[part], pairs.second[part]])
        rows, place = np.unique(ends, return_inverse=True)
        windows = [_windows_of(picture) for picture in gray(rows)]
        one, other = place.reshape(ends.shape)
        likeness[part] = [_likeness(windows[i], windows[j]) for i, j in zip(one, other, strict=True)]
    return pairs._replace(likeness=likeness)


def _likeness(first: Grays, second: Grays) -> float:
    """The best correlation of one picture with a window of the other, mirrored or not: 1 for copies.

    If the correlation of their detail is too low for copies, that is returned. Pictures are windows (W + 1, G * G) from
    `_windows_of`.
    """
    best, one, other = max(_best_match(first, second), _best_match(second, first), key=itemgetter(0))
    if best < SAME_DETAIL:
        return best
    detail = float(np.vdot(*_centered(_detail(np.stack([one, other])))))
    return best if detail >= SAME_DETAIL else detail


def _best_match(windows: Grays, whole: Grays) -> tuple[float, Grays, Grays]:
    """The window of one picture that is most like the whole other one, mirrored or not: the correlation, and both."""
    correlation = windows[:-1] @ whole[[0, -1]].T  # (W, 2)
    window, mirrored = np.unravel_index(correlation.argmax(), correlation.shape)
    return float(correlation[window, mirrored]), windows[window], whole[-mirrored]


def _detail(pictures: Grays) -> Grays:
    """The difference of each point from the mean of the 3 x 3 points around it: (W, G * G) -> (W, G * G)."""
    points = pictures.reshape(-1, _GRID, _GRID)
    padded = np.pad(points, ((0, 0), (1, 1), (1, 1)), mode="edge")
    around = sum(padded[:, down : down + _GRID, across : across + _GRID] for down in range(3) for across in range(3))
    detail: Grays = (points - around / np.float32(9)).reshape(pictures.shape)
    return detail


def _windows_of(picture: Grays) -> Grays:
    """The whole picture, other windows, and the whole picture mirrored: (SIDE, SIDE) -> (W + 1, G * G)."""
    return _centered(picture.reshape(-1).take(_points()))


def _centered(pictures: Grays) -> Grays:
    """Rows with mean 0 and norm 1. A picture of a single color becomes zeros, which correlate with nothing."""
    centered: Grays = pictures - pictures.mean(axis=1, keepdims=True)
    length = np.sqrt(np.einsum("wg,wg->w", centered, centered))[:, None]
    centered /= np.maximum(length, 1e-3)
    return centered


@cache
def _points() -> NDArray[np.int64]:
    """Flat indices of the pixels of every window, and of the whole picture mirrored: (W + 1, G * G)."""
    rows, columns = _windows()
    rows, columns = np.concatenate([rows, rows[:1]]), np.concatenate([columns, SIDE - 1 - columns[:1]])
    return (rows[:, :, None] * SIDE + columns[:, None, :]).reshape(len(rows), -1)


@cache
def _windows() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows and the columns of the pixels of each window, the whole picture first: (W, G) each."""
    rows: list[NDArray[np.int64]] = []
    columns: list[NDArray[np.int64]] = []
    for share in _SHARES:
        offsets = np.arange(0, 1 - share + 1e-9, _STEP)
        for down in offsets:
            for across in offsets:
                for found, offset in ((rows, down), (columns, across)):
                    points = (offset + share * (np.arange(_GRID) + 0.5) / _GRID) * SIDE
                    found.append(np.minimum(points.astype(np.int64), SIDE - 1))
    return np.array(rows), np.array(columns)


def largest_first(width: NDArray[np.integer], height: NDArray[np.integer], paths: Sequence[str]) -> NDArray[np.int64]:
    """Rows ordered by number of pixels, largest first, then by length of the name: `a.jpg` before `a copy.jpg`."""
    pixels = (width.astype(np.int64) * height).tolist()
    return np.array(sorted(range(len(paths)), key=lambda row: (-pixels[row], len(paths[row]), paths[row])), np.int64)


def duplicate_of(images: int, pairs: Pairs, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """The original of every image, or -1 if the image is an original: (N,).

    In `order`, each image that is not yet a duplicate becomes an original, and the images paired with it become its
    duplicates. So every duplicate resembles its original, and a chain of small changes is not one set.
    """
    ends = np.concatenate([pairs.first, pairs.second]), np.concatenate([pairs.second, pairs.first])
    by_first = np.argsort(ends[0], kind="stable")
    partner, starts = ends[1][by_first], np.searchsorted(ends[0][by_first], np.arange(images + 1))
    original = np.full(images, -1, dtype=np.int64)
    is_original = np.zeros(images, dtype=np.bool_)
    for row in order[np.diff(starts)[order] > 0].tolist():
        if original[row] < 0:
            is_original[row] = True
            others = partner[starts[row] : starts[row + 1]]
            original[others[~is_original[others] & (original[others] < 0)]] = row
    return original
