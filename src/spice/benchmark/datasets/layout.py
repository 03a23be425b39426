"""Finding the files of a known layout, whatever the folder around them is called."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spice.errors import UserError


def around(folder: Path) -> Iterator[Path]:
    """The folder itself, then those in it: archives wrap their content in a folder of any name."""
    yield folder
    yield from sorted(item for item in folder.iterdir() if item.is_dir())


def holding(folder: Path, *names: str) -> Path | None:
    """The folder, at most one deeper, that holds all the named files."""
    return next((place for place in around(folder) if all((place / name).is_file() for name in names)), None)


def records(path: Path, length: int) -> NDArray[np.uint8]:
    """A file of equally long records, mapped into memory: (N, length)."""
    found = path.stat().st_size
    if found == 0 or found % length:
        raise UserError(f"{path} has {found:,} bytes, which is not a number of records of {length:,}: is it complete?")
    return np.memmap(path, dtype=np.uint8, mode="r").reshape(-1, length)
