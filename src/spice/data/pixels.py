"""The files of a store, mapped into memory: all that is needed to look at a decoded image. Opens without torch."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spice.arrays import further_pieces, map_files

GRAY, COLOR = "gray.u8", "color.u8"


def mapped(path: Path, channels: int, size: int) -> NDArray[np.uint8]:
    """The file, or several pieces, as an array (rows, C, S, S) that is read from disk as it is used."""
    paths = [path, *further_pieces(path)]
    rows = sum(one.stat().st_size for one in paths) // (channels * size * size)
    if rows == 0:  # an empty file cannot be mapped
        return np.empty((0, channels, size, size), dtype=np.uint8)
    content = np.memmap(path, mode="r") if len(paths) == 1 else map_files(paths)[0]
    return content[: rows * channels * size * size].reshape(rows, channels, size, size)
