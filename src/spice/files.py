"""Atomic writes (a kill at any moment leaves the old file, the new one, or none), and safe file names."""

import os
import re
import shutil
import threading
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spice.errors import UserError

MAX_NAME = 255  # bytes in a file's name, on nearly every file system
_BUSY_SECONDS = 2.0 if os.name == "nt" else 0.0
# What Windows does not allow: certain characters, and the names of devices, with or without an extension.
_REFUSED = re.compile(r'[<>:"/\\|?*\x00-\x1f]')
_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\.|$)", re.IGNORECASE)


@contextmanager
def written_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; on success it replaces `path`, on failure it is removed."""
    # Each thread has its own name: several threads of the explorer may write the same table.
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.partial")
    try:
        yield temporary
        with temporary.open("r+b") as file:  # Windows syncs only what is open for writing
            os.fsync(file.fileno())
        replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def replace(new: Path, path: Path, *, busy_seconds: float = _BUSY_SECONDS) -> None:
    """Rename `new` to `path`. Windows refuses while another program reads the file there: try again for a while."""
    give_up = time.monotonic() + busy_seconds
    while True:
        try:
            new.replace(path)
            return
        except PermissionError:
            if time.monotonic() >= give_up:
                raise
            time.sleep(0.02)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, in UTF-8; the same bytes on every system."""
    with written_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


@contextmanager
def folder_written_atomically(path: Path) -> Iterator[Path]:
    """Yield a new folder next to `path`; on success it replaces `path`, on failure it is removed."""
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


def portable_name(name: str) -> str:
    """A file name that every system accepts, without any path; empty if no character is left."""
    plain = _REFUSED.sub("_", name).strip(" .")
    return f"_{plain}" if _DEVICE.match(plain) else plain


def collision_key(name: str) -> str:
    """Equal for names that are one file on some system: Windows and macOS ignore case, macOS the form of accents."""
    return unicodedata.normalize("NFD", name.casefold())


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
