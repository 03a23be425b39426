"""Python objects that hold images as a source: data frames, data sets, tensors, loaders, generators.

Libraries are recognized by duck typing, so none is imported.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spice.data.columns import VECTOR_COLUMNS, find_column
from spice.data.items import IMAGE_KEYS, Indexable, Items, as_array, content_of
from spice.data.sources import Arrays, Files, Source
from spice.data.vectors import Vectors, read_vectors, stack, with_pictures
from spice.errors import UserError

_UNIT, _BYTE = 1.0, 255.0  # the largest value of images given as floats
_KINDS = "paths, PIL images, bytes, open files, arrays or tensors"

# A path or glob, which `recognize` opens; a source of images; vectors to cluster without an encoder.
Adapted = str | Source | Vectors


def adapt(source: object) -> Adapted:
    """A path or glob unchanged, a file of vectors as `Vectors`, anything else as a source; UserError if it is neither.

    This consumes a generator or a loader, so call it once and pass the result on.
    """
    if isinstance(source, Source | Vectors):
        return source
    if isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        return read_vectors(Path(name)) or str(name)
    array = as_array(source)
    if array is not None and array.dtype.kind not in "OUS":
        return Vectors(array) if array.ndim == 2 else Arrays({"": array}, label=type(source).__name__)
    names = _column_names(source)
    if names is not None:
        return _of_table(source, names)
    return _of_items(source)


def is_table_of_numbers(source: object) -> bool:
    """Whether this is an (N, D) table in itself: an array, a frame of numbers alone, a list of lists of numbers."""
    if isinstance(source, list | tuple) and source:
        first = source[0]
        return isinstance(first, float | int) or (
            isinstance(first, list | tuple) and bool(first) and isinstance(first[0], float | int)
        )
    if callable(getattr(source, "cast_column", None)):  # a data set of Hugging Face, whose rows are not arrays
        return False
    names = _column_names(source)
    if names is not None and find_column(names, (*VECTOR_COLUMNS, *IMAGE_KEYS)) is not None:
        return False
    if not hasattr(source, "shape") and callable(getattr(source, "__array__", None)):
        return np.asarray(source).ndim == 2
    return len(getattr(source, "shape", ())) == 2


def _column_names(source: object) -> list[str] | None:
    """The columns of a frame or table of any library; None for what has none."""
    if callable(names := getattr(source, "column_names", None)):
        names = names()
    if isinstance(names, Mapping):
        raise UserError(f"this data set has several splits; pass one of them, such as data[{next(iter(names))!r}]")
    names = getattr(source, "columns", None) if names is None else names
    if names is None:
        return None
    listed = list(names)
    return listed if all(isinstance(name, str) for name in listed) else None


def _of_table(table: Any, names: list[str]) -> Adapted:
    if callable(getattr(table, "cast_column", None)):  # a data set of Hugging Face
        return _of_dataset(table, names)
    vector, listed = find_column(names, VECTOR_COLUMNS), find_column(names, IMAGE_KEYS)
    values = [] if listed is None else _to_list(table[listed])
    paths = [os.fspath(value) for value in values if isinstance(value, str | os.PathLike)]
    whole = listed is not None and len(paths) == len(values)
    if vector is not None:
        return with_pictures(
            stack(_to_list(table[vector]), f"the column {vector}"), paths if whole else None, label=vector, base=None
        )
    if listed is None:
        raise UserError(f"the table has no image column; name one `path` (found: {', '.join(names)})")
    return _of_items(values)


def _of_dataset(dataset: Any, names: list[str]) -> Adapted:
    features = getattr(dataset, "features", None) or {}
    drawn = next((name for name in names if type(features.get(name)).__name__ == "Image"), None)
    chosen = drawn or find_column(names, IMAGE_KEYS)
    if chosen is None and (vector := find_column(names, VECTOR_COLUMNS)) is not None:
        return Vectors(stack(_to_list(dataset.with_format(None)[vector]), f"the column {vector}"), vector)
    if chosen is None:
        raise UserError(f"the data set has no image column; name one `image` (found: {', '.join(names)})")
    if not hasattr(dataset, "__len__"):  # one that is streamed
        return _of_items(dict(row)[chosen] for row in dataset)
    if drawn is not None:  # take the undecoded files: we decode them ourselves
        dataset = dataset.cast_column(drawn, type(features[drawn])(decode=False))
    return Items(_Rows(dataset.with_format(None), chosen), label="data set")


class _Rows:
    """One column of a data set, row by row."""

    def __init__(self, dataset: Any, column: str) -> None:
        self.dataset, self.column = dataset.select_columns([column]), column

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, number: int) -> object:
        return self.dataset[number][self.column]


def _of_items(source: Any) -> Adapted:
    if hasattr(source, "dataset") and hasattr(source, "batch_size"):
        return _of_batches(source)
    if isinstance(source, list | tuple):
        items: Indexable = source
    elif callable(getattr(source, "to_list", None)) or isinstance(source, np.ndarray):
        items = _to_list(source)
    elif hasattr(source, "__len__") and hasattr(source, "__getitem__") and not isinstance(source, Mapping):
        items = source
    elif isinstance(source, Iterable) and not isinstance(source, Mapping | bytes | bytearray):
        items = list(source)
    else:
        raise UserError(f"{type(source).__name__} is not a collection of images; pass a path or a list of {_KINDS}")
    if len(items) == 0:
        raise UserError("the list of images is empty")
    return _of_list(items)


def _of_list(items: Indexable) -> Adapted:
    if isinstance(items, list | tuple) and all(isinstance(item, str | os.PathLike) for item in items):
        return Files([os.fspath(item) for item in items], label="list of paths")
    checked: Sequence[Any] = items if isinstance(items, list | tuple) else [items[0]]
    strange = sorted({type(item).__name__ for item in checked if not _is_image(item)})
    if strange:
        first = as_array(_first(items[0]))
        if first is not None and first.ndim == 1:
            return Vectors(np.stack([_vector(items[number]) for number in range(len(items))]))
        raise UserError(f"a list of images may contain {_KINDS}; this one contains: {', '.join(strange)}")
    return Items(items, label=f"{type(items).__name__} of images")


def _is_image(item: object) -> bool:
    """Whether an item can be an image, without opening or reading files."""
    item = _first(item)
    if isinstance(item, str | os.PathLike) or callable(getattr(item, "read", None)):
        return True
    if isinstance(item, Mapping):
        return any(item.get(key) is not None for key in IMAGE_KEYS)
    return content_of(item) is not None


def _first(item: Any) -> object:
    while isinstance(item, list | tuple) and item:
        item = item[0]
    return item


def _vector(item: object) -> NDArray[np.generic]:
    array = as_array(_first(item))
    if array is None or array.ndim != 1:
        raise UserError("some items of the list are vectors and some are not; pass only one kind")
    return array


def _of_batches(loader: Iterable[object]) -> Adapted:
    """A loader's batches as one array, with 8 bits per value to save memory."""
    parts, largest = list[NDArray[np.generic]](), 0.0
    for batch in loader:
        array = as_array(_batch_of_images(batch))
        if array is None:
            raise UserError(f"the loader yields {type(batch).__name__}; it must yield a tensor, or a tensor and labels")
        if array.ndim == 4 and array.dtype.kind == "f":
            largest = largest or (_UNIT if float(array.max()) <= _UNIT else _BYTE)
            array = _eight_bits(array, largest)
        parts.append(array)
    if not parts:
        raise UserError("the list of images is empty")
    whole = np.concatenate(parts)
    return Vectors(whole) if whole.ndim == 2 else Arrays({"": whole}, label=type(loader).__name__)


def _batch_of_images(batch: object) -> object:
    if isinstance(batch, Mapping):
        return next((batch[key] for key in IMAGE_KEYS if key in batch), None)
    return _first(batch)


def _eight_bits(array: NDArray[np.generic], largest: float) -> NDArray[np.uint8]:
    low, high = float(np.min(array)), float(np.max(array))  # NaN if there is one
    if not (low >= 0 and high <= largest):
        raise UserError(
            f"the loader yields values from {low:.4g} to {high:.4g}; pass images in 0..1 or 0..255, not normalized"
        )
    pixels: NDArray[np.uint8] = np.rint(array.astype(np.float32) * (_BYTE / largest)).astype(np.uint8)
    return pixels


def _to_list(column: Any) -> list[Any]:
    """The values of a column of any library."""
    for method in ("to_pylist", "to_list", "tolist"):
        if callable(listed := getattr(column, method, None)):
            return list(listed())
    return list(column)
