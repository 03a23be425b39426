"""Sort results, which are in order of content, into the user's order."""

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from spice.data import Collection
from spice.data.adapters import Adapted
from spice.data.vectors import Vectors

Value = TypeVar("Value", bound=np.generic)


class UserOrder(NamedTuple):
    """The user's images, in the user's order."""

    rows: NDArray[np.int64]  # (N,) the row of each image in the collection; -1: it could not be read
    names: list[str]  # (N,)


def user_order(source: Adapted, collection: Collection) -> UserOrder:
    """The order of the user's images: for a path, the readable ones; for Python objects, all of them."""
    if isinstance(source, str):
        return source_order(collection)
    numbers = collection.numbers
    rows = np.full(len(source) if isinstance(source, Vectors) else source.count, -1, dtype=np.int64)
    rows[numbers] = np.arange(len(collection))
    paths = collection.paths
    return UserOrder(rows, [paths[row] if row >= 0 else "" for row in rows])


def filled(values: NDArray[Value], rows: NDArray[np.int64]) -> NDArray[Value]:
    """The values in the user's order; NaN, False or -1 for an image that could not be read."""
    found = values[rows]
    found[rows < 0] = {"f": np.nan, "b": False}.get(values.dtype.kind, -1)
    return found


def source_order(collection: Collection) -> UserOrder:
    """The images that could be read, in the order of their source."""
    order, paths = collection.numbers.argsort(kind="stable"), collection.paths
    return UserOrder(order, [paths[row] for row in order])
