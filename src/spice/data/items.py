"""Images in memory, one by one: PIL images, bytes, open files, arrays, tensors, rows of a data set."""

import os
import uuid
from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from spice.data.columns import PATH_COLUMNS
from spice.data.decode import Content
from spice.data.problems import BadImageError, Problem, Reason
from spice.data.sources import Entry, Source, read_file

# Keys of the image in a row of a data set, the most likely first; some hold a path.
IMAGE_KEYS = ("image", "img", "picture", "photo", "pixel_values", "pixels", "bytes", *PATH_COLUMNS)
_CHANNELS = (1, 3, 4)


class Indexable(Protocol):
    """A list or a data set: anything with a length and items by number."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Any: ...


class Items(Source):
    """Images by number, read one at a time: a user's data set may not be thread-safe."""

    def __init__(self, items: Indexable, *, label: str) -> None:
        self.label, self.items, self.count = label, items, len(items)
        self.stamp = uuid.uuid4().hex  # never the same twice: objects in memory have no modification time
        self._one_at_a_time = Lock()

    def entries(self) -> Iterator[Entry | Problem]:
        return (Entry(str(number), self.stamp, number, 0) for number in range(self.count))

    def read(self, entry: Entry) -> Content:
        with self._one_at_a_time:
            item = self.items[entry.number]
            content = content_of(item)
        if content is None:
            raise BadImageError(Reason.NOT_AN_IMAGE, f"a {type(item).__name__}")
        return content


def content_of(item: object) -> Content | None:
    """The image in an item of any supported type; None if there is none. Of a pair (image, label), the first."""
    if isinstance(item, Image.Image):
        return item
    if isinstance(item, bytes | bytearray | memoryview):
        return bytes(item)
    if isinstance(item, str | os.PathLike):
        return read_file(os.fspath(item))
    if isinstance(item, Mapping | list | tuple):
        parts = [item.get(key) for key in IMAGE_KEYS] if isinstance(item, Mapping) else item[:1]
        return next((found for part in parts if (found := content_of(part)) is not None), None)
    if callable(getattr(item, "read", None)):
        return _read_open_file(item)
    array = as_array(item)
    return None if array is None or array.ndim not in (2, 3) else array


def as_array(item: object) -> NDArray[np.generic] | None:
    """An array or tensor as an array, the channels of images last; None for anything else.

    Tensors hold channels first: (C, H, W), (N, C, H, W). Arrays are left as they are, unless they are one such image.
    """
    if isinstance(item, np.ndarray):
        return _channels_last(item) if item.ndim == 3 else item
    if not callable(getattr(item, "detach", None)):
        return None
    tensor: Any = item
    if tensor.is_floating_point():
        tensor = tensor.float()  # NumPy has no bfloat16
    array: NDArray[np.generic] = tensor.detach().cpu().numpy()
    return _channels_last(array) if array.ndim in (3, 4) else array


def _channels_last(array: NDArray[np.generic]) -> NDArray[np.generic]:
    first = array.ndim - 3  # the axis of the channels, if they come first
    if array.shape[first] in _CHANNELS and array.shape[-1] not in _CHANNELS:
        return np.moveaxis(array, first, -1)
    return array


def _read_open_file(file: Any) -> bytes:
    """The whole content of an open file, which may have been read before."""
    if callable(getattr(file, "seek", None)) and getattr(file, "seekable", lambda: True)():
        file.seek(0)
    data = file.read()
    if not isinstance(data, bytes):
        raise BadImageError(Reason.UNREADABLE, "the file is open as text: open it with mode 'rb'")
    return data
