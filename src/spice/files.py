"""Atomic writes: a kill at any moment leaves the old file, the new one, or none. File names; parquet tables."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

from spice.errors import UserError

ROWS_PER_FILE = 1_000_000  # of a table; a million images take about 100 MB
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


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, in UTF-8."""
    with written_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


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
    """A file name with `mark` before its extension, shortened to the limit of file systems."""
    stem, ending = Path(name).stem, mark + Path(name).suffix
    while stem and len(os.fsencode(stem + ending)) > MAX_NAME:
        stem = stem[:-1]
    return stem + ending


def printable(name: str) -> str:
    r"""The name as valid Unicode: bytes of a file name that are not UTF-8 become `\xe9`."""
    try:
        return os.fsencode(name).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # no file can have this name, but a list may contain it
        return name.encode("utf-8", "backslashreplace").decode()


def refuse_undecodable(*names: str) -> None:
    """Refuse file names that are not valid text: no table, JSON file or library could hold them."""
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            shown = name.encode("utf-8", "backslashreplace").decode()
            raise UserError(f"{shown} is not a valid UTF-8 name; rename it (or set PYTHONUTF8=1 if it is)") from None


def write_parquet(path: Path, table: "pa.Table") -> None:
    """Write a table atomically: a file, or a folder of files that pyarrow, pandas and polars read as one."""
    starts = range(0, table.num_rows, ROWS_PER_FILE)
    if path.is_dir() or len(starts) > 1:
        remove(path)  # a file cannot take the place of a folder
    if len(starts) <= 1:
        write_parquet_file(path, table)
        return
    with folder_written_atomically(path) as folder:
        for number, start in enumerate(starts):
            write_parquet_file(folder / f"part-{number:05d}.parquet", table.slice(start, ROWS_PER_FILE))


def write_parquet_file(path: Path, table: "pa.Table") -> None:
    """Write a table of any length as one file, atomically."""
    import pyarrow.parquet as pq

    with written_atomically(path) as temporary, temporary.open("wb") as file:  # pyarrow's own errors name no file
        pq.write_table(table, file)


def remove(path: Path) -> None:
    """Delete a file, a link or a folder; a link is not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> "pa.Table":
    """Columns of a table that `write_parquet` wrote, or of another parquet file; None: all columns.

    Uses this thread alone: neither `pq.read_table` nor `pre_buffer`, which start threads even if told not to. A thread
    that still runs when Python exits aborts the process, and one that lacks the memory to start is awaited forever.
    """
    import pyarrow as pa

    names = None if columns is None else list(columns)
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    try:
        return pa.concat_tables(_read_parquet_file(file, names) for file in files)
    except KeyError as error:  # a column that is missing, or there twice
        raise pa.ArrowInvalid(str(error.args[0])) from None
    except pa.ArrowMemoryError as error:  # not an ArrowException, by which callers recognize a damaged file
        raise MemoryError(str(error)) from None


def _read_parquet_file(path: Path, columns: list[str] | None) -> "pa.Table":
    import pyarrow.parquet as pq

    with path.open("rb") as opened:
        file = pq.ParquetFile(opened, pre_buffer=False, page_checksum_verification=True)
        table = file.read(columns=columns, use_threads=False)
    return table if columns is None else table.select(columns)
