"""Atomic writes: a kill at any moment leaves the old file, the new one, or none. File names."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


def remove(path: Path) -> None:
    """Delete a file, a link or a folder; a link is not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
