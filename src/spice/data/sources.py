"""Where images come from. A source lists its entries cheaply, and reads the content of one entry at a time.

What a user may hand over: a folder, a glob, a list of paths (text, csv, parquet or Python), a tar or zip archive, an
array or a .npy/.npz file of arrays, a list of PIL images.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from spice.data.decode import MAX_BYTES, Content, format_of
from spice.data.problems import BadImageError, Problem, Reason, bad_file

HEAD = 32  # first bytes, which show whether a file is an image at all
_PIECE = 1 << 20  # bytes read at once: a read allocates what it asks for, however short the file is

SourceLike = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Sequence[Image.Image] | NDArray[np.generic]


class Entry(NamedTuple):
    """One thing in a source that may be an image."""

    name: str  # as the user will see it
    stamp: str  # changes when the content does
    number: int  # place in the listing
    length: int  # bytes, as far as the listing tells


Piece = tuple[Entry, Callable[[], Content]]  # an entry, and the function that reads it


class Source(Protocol):
    """A folder, a list, an archive, an array: anything that holds images."""

    label: str
    any_order: bool  # False: entries can only be read first to last (a compressed tar)

    def entries(self) -> Iterator[Entry | Problem]:
        """Everything in the source, without reading contents; what cannot even be listed is a problem."""

    def read(self, entry: Entry) -> Content:
        """The content of one entry; raises BadImageError or OSError. Safe to call from several threads."""

    def contents(self, entries: Iterable[Entry]) -> Iterator[Piece]:
        """The entries, each with the function that reads it, in their order."""


class AnyOrder:
    """A source whose entries can be read in any order."""

    any_order = True

    def read(self, entry: Entry) -> Content:
        raise NotImplementedError

    def contents(self, entries: Iterable[Entry]) -> Iterator[Piece]:
        for entry in entries:
            yield entry, partial(self.read, entry)


def read_if_image(file: IO[bytes], length: int, *, longest: int = MAX_BYTES) -> bytes:
    """All of an open file, unless its first bytes show that it is not an image: a film is not read to its end."""
    head = file.read(min(HEAD, longest))
    if not head:
        raise BadImageError(Reason.EMPTY)
    if format_of(head) is None:
        raise BadImageError(Reason.NOT_AN_IMAGE)
    if length > MAX_BYTES:
        raise BadImageError(Reason.TOO_LARGE, f"{length:,} bytes")
    pieces, left = [head], longest - len(head)
    while left > 0 and (piece := file.read(min(_PIECE, left))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


class Files(AnyOrder):
    """Paths in the order given, named as given. The same path twice is two entries: an answer for each is expected."""

    def __init__(self, paths: Sequence[str], *, label: str, base: Path | None = None) -> None:
        self.label = label
        self.paths = paths
        self.base = "" if base is None else str(base)

    def entries(self) -> Iterator[Entry | Problem]:
        for number, path in enumerate(self.paths):
            yield entry_of_file(os.path.join(self.base, path), path, number)  # noqa: PTH118 - a million times

    def read(self, entry: Entry) -> Content:
        return read_file(os.path.join(self.base, entry.name))  # noqa: PTH118


class Folder(AnyOrder):
    """Every file under a folder, through links too, each real folder once."""

    def __init__(self, root: Path, *, leave_out: Iterable[Path] = ()) -> None:
        self.label = str(root)
        self.root = root
        self.left_out = {os.path.realpath(path) for path in leave_out}

    def entries(self) -> Iterator[Entry | Problem]:
        root, number = str(self.root), 0
        inside = os.path.join(root, "")  # noqa: PTH118 - the root itself with a separator at its end
        for path, problem in _walk(root, self.left_out):
            name = path.removeprefix(inside) if path != root else "."
            if problem is not None:
                yield Problem(name, problem.reason, problem.detail)
                continue
            entry = entry_of_file(path, name, number)
            number += isinstance(entry, Entry)
            yield entry

    def read(self, entry: Entry) -> Content:
        return read_file(os.path.join(self.root, entry.name))  # noqa: PTH118


def entry_of_file(path: str, name: str, number: int) -> Entry | Problem:
    """An entry for a regular file. Pipes and devices are problems: opening one could wait forever."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError as error:
        bad = bad_file(error, path)
        return Problem(name, bad.reason, bad.detail)
    except ValueError as error:  # a zero byte in a listed name
        return Problem(name, Reason.UNREADABLE, str(error))
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        return Problem(name, Reason.UNREADABLE, kind)
    return Entry(name, stamp_of(status), number, status.st_size)


def stamp_of(status: os.stat_result) -> str:
    """Changes when a file does."""
    return f"{status.st_size}-{status.st_mtime_ns}"


def read_file(path: str) -> bytes:
    """The bytes of one image file; raises BadImageError."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a million times
            return read_if_image(file, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise bad_file(error, path) from error


def _walk(root: str, left_out: set[str]) -> Iterator[tuple[str, BadImageError | None]]:
    """All files under `root`, or the problem met instead of one, in the order of their names.

    Links to folders are followed after all real folders, and a real folder is entered once, so that links across
    many folders cannot multiply the files; a link to a folder that holds the link is a loop.
    """
    entered: set[str] = set()
    folders, links = [root], list[str]()
    while folders or links:
        folder = folders.pop() if folders else links.pop()
        real = os.path.realpath(folder)
        if real in entered or real in left_out:
            continue
        entered.add(real)
        try:
            items = sorted(os.scandir(folder), key=lambda item: item.name)
        except OSError as error:
            yield folder, bad_file(error, folder)
            continue
        for item in items:
            if not _leads_to_folder(item):
                yield item.path, None
            elif not item.is_symlink():
                folders.append(item.path)
            elif _holds(os.path.realpath(item.path), real):
                yield item.path, BadImageError(Reason.LOOP_OF_LINKS, f"leads back to {os.path.realpath(item.path)}")
            else:
                links.append(item.path)


def _leads_to_folder(item: "os.DirEntry[str]") -> bool:
    try:
        return item.is_dir()
    except OSError:  # a link to itself; the file's own turn tells so
        return False


def _holds(folder: str, inner: str) -> bool:
    return os.path.commonpath([folder, inner]) == folder
