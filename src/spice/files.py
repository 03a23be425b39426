"""Writing files so that a kill at any moment leaves either the old file, the new one, or none."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; on success it takes the place of `path`, on failure it is removed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield temporary
        with temporary.open("r+b") as file:  # Windows syncs only what is open for writing
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
