"""The files of a store, mapped into memory: all that is needed to look at a decoded image. Opens without torch."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

GRAY, COLOR = "gray.u8", "color.u8"


def mapped(path: Path, channels: int, size: int) -> NDArray[np.uint8]:
    """The file as an array (rows, C, S, S) that is read from disk as it is used."""
    rows = path.stat().st_size // (channels * size * size)
    if rows == 0:  # an empty file cannot be mapped
        return np.empty((0, channels, size, size), dtype=np.uint8)
    return np.memmap(path, dtype=np.uint8, mode="r", shape=(rows, channels, size, size))
