"""Outliers and near-duplicates of a finished result, from its files alone."""

from typing import NamedTuple

import numpy as np

from spice.arrays import open_array
from spice.runs.artifacts import IMAGES, PAIRS, SIMILARITIES
from spice.runs.result import Result
from spice.tables import read_parquet
from spice.trust.duplicates import SAME, Pairs, duplicate_of, largest_first
from spice.trust.outliers import Outliers, find_outliers


class Duplicates(NamedTuple):
    """An image, its near-duplicates, and the correlation of their pixels with its own."""

    row: int
    copies: list[int]
    likeness: list[float]


def outliers_of(result: Result) -> Outliers:
    """How far each image is from its nearest images, by the frozen encoder's features."""
    return find_outliers(open_array(result.need(SIMILARITIES)))


def duplicates_of(result: Result, *, threshold: float = SAME) -> list[Duplicates]:
    """Sets of near-duplicates, the largest set first; `row` is the largest image of a set."""
    with np.load(result.need(PAIRS)) as saved:
        pairs = Pairs(**saved).above(threshold)
    size = read_parquet(result.need(IMAGES), ["width", "height"])
    order = largest_first(size["width"].to_numpy(), size["height"].to_numpy(), result.labels.path)
    original = duplicate_of(len(result.labels.path), pairs, order)
    ends = zip(pairs.first.tolist(), pairs.second.tolist(), pairs.likeness.tolist(), strict=True)
    likeness = {frozenset((one, other)): value for one, other, value in ends}
    found: dict[int, list[int]] = {}
    for row in np.flatnonzero(original >= 0).tolist():
        found.setdefault(int(original[row]), []).append(row)
    sets = [Duplicates(row, rows, [likeness[frozenset((row, copy))] for copy in rows]) for row, rows in found.items()]
    return sorted(sets, key=lambda duplicates: (-len(duplicates.copies), result.labels.path[duplicates.row]))
