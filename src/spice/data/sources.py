"""Sources of images. A source lists its entries without reading them, and reads one entry at a time.

A user may give a folder, a glob, a list of paths (text, csv, parquet), a tar or zip archive, or a .npy/.npz file of
arrays; in Python also what `adapters` recognizes.
"""

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spice.data.decode import MAX_BYTES, Content, digest, format_of
from spice.data.other_files import is_raw, not_an_image, raw_preview
from spice.data.problems import BadImageError, Problem, Reason, bad_file
from spice.errors import NoticeWarning, UserError, one_line, warn_user
from spice.progress import log

HEAD = 512  # first bytes, which show whether a file is an image at all
_READ_BYTES = 1 << 20  # bytes read at once: a read allocates what it asks for, however short the file is
_DARK = 64  # arrays of at most this value, read as 0..255, are probably meant otherwise

# Folders in which file managers, cloud drives and photo libraries keep thumbnails and deleted files.
_SYSTEM_FOLDERS = ("@eaDir", "__MACOSX", "$RECYCLE.BIN", "System Volume Information", "lost+found")

# Whatever `spice.data.adapters` recognizes: a path, a list, an array, a frame, a data set, a generator, ...
SourceLike = object


class Entry(NamedTuple):
    """One thing in a source that may be an image."""

    name: str  # as the user will see it
    stamp: str  # changes when the content does
    number: int  # place in the listing
    length: int  # bytes, as far as the listing shows


Readable = tuple[Entry, Callable[[], Content]]  # an entry, and the function that reads it


class Source:
    """Anything that holds images: a folder, a list, an archive, an array."""

    label: str
    count: int  # of images in memory: how many answers are expected
    random_access = True  # False: entries can only be read first to last (a compressed tar)

    def entries(self) -> Iterator[Entry | Problem]:
        """Everything in the source, without reading contents; what cannot even be listed is a problem."""
        raise NotImplementedError

    def read(self, entry: Entry) -> Content:
        """The content of one entry; raises BadImageError or OSError. Safe to call from several threads."""
        raise NotImplementedError

    def contents(self, entries: Iterable[Entry]) -> Iterator[Readable]:
        """The entries, each with the function that reads it, in their order."""
        return ((entry, partial(self.read, entry)) for entry in entries)

    def listing(self) -> tuple[list[Entry], list[Problem]]:
        """The entries, and the problems met before any content was read."""
        entries, problems = list[Entry](), list[Problem]()
        for item in self.entries():
            if isinstance(item, Problem):
                problems.append(item)
            else:
                entries.append(item)
        return entries, problems


class _OnDisk(Source):
    base: str  # the folder that the names of entries start at

    def read(self, entry: Entry) -> Content:
        return read_file(os.path.join(self.base, entry.name))  # noqa: PTH118 - a million times


class Files(_OnDisk):
    """Paths in the order given. A path that is listed twice gets two entries, and so two answers."""

    def __init__(self, paths: Sequence[str], *, label: str, base: Path | None = None) -> None:
        self.label, self.paths, self.count = label, paths, len(paths)
        self.base = "" if base is None else str(base)

    def entries(self) -> Iterator[Entry | Problem]:
        for number, path in enumerate(self.paths):
            yield _entry_of_file(os.path.join(self.base, path), path, number)  # noqa: PTH118


class Folder(_OnDisk):
    """Every file under a folder. Links are followed, each real folder once; run folders and hidden ones are skipped."""

    def __init__(self, root: Path, *, leave_out: Iterable[Path] = ()) -> None:
        self.label = self.base = str(root)
        self.left_out = {os.path.realpath(path) for path in leave_out}

    def entries(self) -> Iterator[Entry | Problem]:
        root, number, skipped = self.base, 0, dict[str, list[str]]()
        inside = os.path.join(root, "")  # noqa: PTH118 - the root itself with a separator at its end
        for path, bad in _walk(root, self.left_out, skipped):
            name = _slashes(path.removeprefix(inside)) if path != root else "."
            entry = bad.problem(name) if bad else _entry_of_file(path, name, number)
            number += isinstance(entry, Entry)
            yield entry
        if skipped:
            kinds = [f"{len(paths)} {kind} (such as {paths[0]})" for kind, paths in skipped.items()]
            log.info("skipped folders: %s", ", ".join(kinds))


class Arrays(Source):
    """One or more arrays (N, H, W) or (N, H, W, C), one image per row."""

    def __init__(self, arrays: Mapping[str, NDArray[np.generic]], *, label: str, stamp: str = "") -> None:
        self.label, self.stamp, self.arrays = label, stamp, arrays
        self.count = sum(map(len, arrays.values()))
        self.factors = {name: _factor(array, f"{label}[{name}]" if name else label) for name, array in arrays.items()}

    def entries(self) -> Iterator[Entry | Problem]:
        number = 0
        for name, array in self.arrays.items():
            for row, image in enumerate(array):
                # An array in memory has no modification time, so its content is the stamp.
                stamp = self.stamp or digest(image)
                yield Entry(f"{name}/{row}" if name else str(row), stamp, number, image.nbytes)
                number += 1

    def read(self, entry: Entry) -> Content:
        row = entry.number
        for name, array in self.arrays.items():
            if row < len(array):
                image, factor = np.asarray(array[row]), self.factors[name]
                return image if factor is None else np.rint(image.astype(np.float64) * factor).astype(np.uint8)
            row -= len(array)
        raise IndexError(entry.number)


def array_file(path: Path) -> Arrays:
    """A .npy file, mapped into memory, or the arrays of images in a .npz file; arrays of another shape are ignored."""
    try:
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            arrays = {"": loaded}
        else:
            with loaded:
                arrays = {name: array for name in loaded.files if (array := loaded[name]).ndim in (3, 4)}
    except Exception as error:  # a damaged file also raises errors of zipfile, zlib and Python's tokenizer
        raise UserError(f"{path} cannot be read as an array of images ({one_line(error)}); save it again") from error
    if not arrays:
        raise UserError(f"{path} contains no image array; expected shape (N, H, W) or (N, H, W, C)")
    return Arrays(arrays, label=str(path), stamp=stamp_of(path.stat()))


def stamp_of(status: os.stat_result) -> str:
    """Changes when a file does."""
    return f"{status.st_size}-{status.st_mtime_ns}"


def read_file(path: str) -> bytes:
    """The bytes of one image file; raises BadImageError."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a million times
            return read_if_image(file, os.fstat(file.fileno()).st_size, name=path)
    except OSError as error:
        raise bad_file(error, path) from error


def read_if_image(file: IO[bytes], length: int, *, longest: int = MAX_BYTES, name: str = "") -> bytes:
    """All of an open file, or the preview inside a camera's raw file (by `name`).

    A file whose first bytes show that it is not an image, such as a video, is not read further.
    """
    head, raw = file.read(min(HEAD, longest)), is_raw(name)
    if not head:
        raise BadImageError(Reason.EMPTY)
    if format_of(head) is None and not raw:
        raise not_an_image(head)
    if length > MAX_BYTES:
        raise BadImageError(Reason.TOO_LARGE, f"{length:,} bytes")
    parts, left = [head], longest - len(head)
    while left > 0 and (part := file.read(min(_READ_BYTES, left))):
        parts.append(part)
        left -= len(part)
    data = b"".join(parts)
    return raw_preview(data) if raw else data


def _entry_of_file(path: str, name: str, number: int) -> Entry | Problem:
    """An entry for a regular file. Pipes and devices are problems: opening one could wait forever."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError as error:
        return bad_file(error, path).problem(name)
    except ValueError as error:  # a zero byte in a listed name
        return Problem(name, Reason.UNREADABLE, str(error))
    if stat.S_ISREG(status.st_mode):
        return Entry(name, stamp_of(status), number, status.st_size)
    return Problem(name, Reason.UNREADABLE, "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file")


def _walk(root: str, left_out: set[str], skipped: dict[str, list[str]]) -> Iterator[tuple[str, BadImageError | None]]:
    """All files under `root`, or the problem met instead of one, in the order of their names.

    Links to folders are followed after all real folders, and a real folder is entered once, so that links across
    many folders cannot multiply the files; a link to a folder that holds the link is a loop. Folders that hold none of
    the user's images are added to `skipped`, by kind.
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
        if folder != root and (folder.endswith(".spice") or any(map(_is_manifest, items))):
            skipped.setdefault("made by spice", []).append(folder)
            continue
        for item in items:
            if not _leads_to_folder(item):
                yield item.path, None
            elif item.name.startswith(".") or item.name.endswith(".lrdata") or item.name in _SYSTEM_FOLDERS:
                skipped.setdefault("hidden or of the system", []).append(item.path)
            elif not item.is_symlink():
                folders.append(item.path)
            elif Path(real).is_relative_to(target := os.path.realpath(item.path)):
                yield item.path, BadImageError(Reason.LOOP_OF_LINKS, f"leads back to {target}")
            else:
                links.append(item.path)


def _slashes(name: str, separator: str = os.sep) -> str:
    """A relative path as every system reads it: a run made on Windows can be used elsewhere."""
    return name if separator == "/" else name.replace(separator, "/")


def _is_manifest(item: "os.DirEntry[str]") -> bool:
    """Whether this file is the manifest of a run folder, of any version."""
    if item.name != "manifest.json":
        return False
    try:
        content = json.loads(Path(item).read_bytes()) if item.is_file() else None
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and "format" in content and ("results" in content or "steps" in content)


def _leads_to_folder(item: "os.DirEntry[str]") -> bool:
    try:
        return item.is_dir()
    except OSError:  # a link to itself, which becomes a problem when the file is listed
        return False


def _factor(array: NDArray[np.generic], label: str) -> float | None:
    """The factor that brings values to 0..255; None for 8- and 16-bit integers, whose type defines their range.

    One factor for the whole array: judged alone, a dark image in 0..255 could be taken for one in 0..1.
    """
    shape = array.shape
    if array.ndim not in (3, 4) or (array.ndim == 4 and shape[3] not in (1, 3, 4)):
        channels_first = array.ndim == 4 and shape[1] in (1, 3, 4)
        advice = "; move the channels last with array.transpose(0, 2, 3, 1)" if channels_first else ""
        raise UserError(f"{label} has shape {shape}; expected (N, H, W) or (N, H, W, C) with C of 1, 3 or 4{advice}")
    if array.dtype.kind not in "buif":
        raise UserError(f"{label} contains {array.dtype}; expected numbers")
    if array.dtype in (np.uint8, np.uint16, np.bool_) or array.size == 0:
        return None
    low, high = float(np.min(array)), float(np.max(array))  # NaN if there is one
    if not (low >= 0 and high <= 255):
        raise UserError(
            f"{label} contains values from {low:.4g} to {high:.4g}; pass images in 0..1, 0..255 or as uint16"
        )
    if array.dtype.kind == "f" and high <= 1:
        return 255.0
    if 0 < high <= _DARK:  # such as the digits of scikit-learn, in 0..16
        warn_user(
            f"{label} contains values from {low:.4g} to {high:.4g}, read as 0..255, so all images are nearly black; "
            f"if {high:.4g} means white, divide by it",
            NoticeWarning,
        )
    return 1.0
