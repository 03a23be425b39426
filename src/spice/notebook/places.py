"""Puts results, which are in order of content, into the user's order."""

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from spice.data import Collection
from spice.data.adapters import Given
from spice.data.vectors import Vectors

Value = TypeVar("Value", bound=np.generic)


class Places(NamedTuple):
    """For every image of the user, the row of its result."""

    rows: NDArray[np.int64]  # (N,) for every image of the user its row in the collection; -1: it could not be read
    names: list[str]

    def fill(self, values: NDArray[Value], missing: Value) -> NDArray[Value]:
        """The values in the user's order; `missing` for an image that could not be read."""
        found = values[self.rows]
        found[self.rows < 0] = missing
        return found


def places_of(given: Given, collection: Collection) -> Places:
    """The places of the user's images: for a path, those that could be read; otherwise everything given."""
    if isinstance(given, str):
        return in_order(collection)
    numbers = collection.numbers
    rows = np.full(len(given) if isinstance(given, Vectors) else given.count, -1, dtype=np.int64)
    rows[numbers] = np.arange(len(collection))
    paths = collection.paths
    return Places(rows, [paths[row] if row >= 0 else "" for row in rows])


def in_order(collection: Collection) -> Places:
    """The images that could be read, in the order of their source."""
    order, paths = collection.numbers.argsort(kind="stable"), collection.paths
    return Places(order, [paths[row] for row in order])
