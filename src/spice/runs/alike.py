"""Outliers and near-duplicates of a finished result, from its files alone."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spice.arrays import open_array
from spice.files import read_parquet
from spice.runs.artifacts import IMAGES, PAIRS, SIMILARITIES
from spice.runs.result import Result
from spice.trust.duplicates import SAME, Pairs, duplicate_of
from spice.trust.outliers import Outliers, find_outliers


class Duplicates(NamedTuple):
    """An image, its near-copies, and the correlation of their pixels with its own."""

    row: int
    copies: list[int]
    likeness: list[float]


def outliers_of(result: Result) -> Outliers:
    """How far each image is from its nearest images, by the frozen encoder's features."""
    return find_outliers(open_array(result.need(SIMILARITIES)))


def duplicates_of(result: Result, *, threshold: float = SAME) -> list[Duplicates]:
    """Sets of near-duplicates, the largest set first; `row` is the largest image of a set."""
    with np.load(result.need(PAIRS)) as kept:
        pairs = Pairs(kept["first"], kept["second"], kept["likeness"]).above(threshold)
    original = duplicate_of(len(result.labels.path), pairs, _largest_first(result))
    ends = zip(pairs.first.tolist(), pairs.second.tolist(), pairs.likeness.tolist(), strict=True)
    likeness = {frozenset((one, other)): value for one, other, value in ends}
    found: dict[int, list[int]] = {}
    for row in np.flatnonzero(original >= 0).tolist():
        found.setdefault(int(original[row]), []).append(row)
    sets = [Duplicates(row, rows, [likeness[frozenset((row, copy))] for copy in rows]) for row, rows in found.items()]
    return sorted(sets, key=lambda duplicates: (-len(duplicates.copies), result.labels.path[duplicates.row]))


def _largest_first(result: Result) -> NDArray[np.int64]:
    """By number of pixels, then by name, short ones first, as in `Collection.largest_first`."""
    table = read_parquet(result.need(IMAGES), ["width", "height"])
    pixels = table["width"].to_numpy().astype(np.int64) * table["height"].to_numpy()
    paths = result.labels.path
    order = sorted(range(len(paths)), key=lambda row: (-int(pixels[row]), len(paths[row]), paths[row]))
    return np.array(order, dtype=np.int64)
