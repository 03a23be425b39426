"""The memory-mapped files of a store. Does not import torch."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spice.arrays import further_pieces, map_files

GRAY, COLOR = "gray.u8", "color.u8"


def map_pixels(path: Path, channels: int, size: int) -> NDArray[np.uint8]:
    """The file, or its pieces, as a memory-mapped array (rows, C, S, S)."""
    paths = [path, *further_pieces(path)]
    rows = sum(one.stat().st_size for one in paths) // (channels * size * size)
    if rows == 0:  # an empty file cannot be mapped
        return np.empty((0, channels, size, size), dtype=np.uint8)
    content = np.memmap(path, mode="r") if len(paths) == 1 else map_files(paths)[0]
    return content[: rows * channels * size * size].reshape(rows, channels, size, size)
