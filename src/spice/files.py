"""Writing files so that a kill at any moment leaves the old file, the new one, or none; names; reading tables."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

from spice.errors import UserError

MAX_NAME = 255  # bytes in a file's name, on nearly every file system


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


@contextmanager
def folder_written_atomically(path: Path) -> Iterator[Path]:
    """Yield a new folder beside `path`; on success it takes the place of `path`, on failure it is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new, old = path.with_name(f".{path.name}.partial"), path.with_name(f".{path.name}.old.partial")
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)
    new.mkdir()
    try:
        yield new
        if path.exists():
            path.rename(old)
        new.rename(path)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def shortened(name: str, mark: str = "") -> str:
    """The name of a file, with `mark` before its ending, cut to what a file system takes."""
    stem, ending = Path(name).stem, mark + Path(name).suffix
    while stem and len(os.fsencode(stem + ending)) > MAX_NAME:
        stem = stem[:-1]
    return stem + ending


def refuse_undecodable(*names: str) -> None:
    """Refuse names of files that are not text: no table, JSON file or library could hold them."""
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            shown = name.encode("utf-8", "backslashreplace").decode()
            raise UserError(f"{shown} is not a valid UTF-8 name; rename it (or set PYTHONUTF8=1 if it is)") from None


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> "pa.Table":
    """A table, read without pyarrow's file systems, which are slow to import.

    From bytes and on this thread: a pyarrow thread that is still running when Python exits aborts the process.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = None if columns is None else list(columns)
    return pq.read_table(pa.BufferReader(path.read_bytes()), columns=names, use_threads=False)
