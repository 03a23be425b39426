"""Reasons why a file could not be used, and `problems.csv`, which lists such files."""

import csv
import errno
import os
from collections.abc import Iterable, Mapping
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from spice.files import printable
from spice.tables import write_table


class Reason(StrEnum):
    """Every way a file can fail to be an image."""

    UNREADABLE = "unreadable"
    TRUNCATED = "truncated"
    EMPTY = "empty"
    NOT_AN_IMAGE = "not an image"
    OTHER_FORMAT = "other format"
    VIDEO = "video"
    PDF = "PDF"
    RAW = "raw"
    HEIC = "HEIC"
    TOO_LARGE = "too large"
    PERMISSION_DENIED = "permission denied"
    BROKEN_LINK = "broken link"
    LOOP_OF_LINKS = "loop of links"


# Wording of a summary, for one file and for several, in this order: what the user can fix first.
_IN_WORDS = {
    Reason.HEIC: ("HEIC", "HEIC"),
    Reason.RAW: ("raw", "raw"),
    Reason.OTHER_FORMAT: ("in a format that is not read", "in formats that are not read"),
    Reason.PERMISSION_DENIED: ("without permission to read", "without permission to read"),
    Reason.TRUNCATED: ("truncated", "truncated"),
    Reason.UNREADABLE: ("unreadable", "unreadable"),
    Reason.TOO_LARGE: ("too large", "too large"),
    Reason.EMPTY: ("empty", "empty"),
    Reason.BROKEN_LINK: ("broken link", "broken links"),
    Reason.LOOP_OF_LINKS: ("loop of links", "loops of links"),
    Reason.VIDEO: ("video", "videos"),
    Reason.PDF: ("PDF", "PDFs"),
    Reason.NOT_AN_IMAGE: ("not an image", "not images"),
}
# Optional readers of such files: module and package.
_READERS = {Reason.HEIC: ("pillow_heif", "pillow-heif"), Reason.RAW: ("rawpy", "rawpy")}


def skipped_in_words(counts: Mapping[str, int]) -> str:
    """`64 skipped: 2 HEIC (pip install pillow-heif), 12 videos, 50 not images`, from a count by reason."""
    found = [(reason, counts[reason], words) for reason, words in _IN_WORDS.items() if counts.get(reason)]
    parts = [f"{count:,} {words[count > 1]}{_advice(reason)}" for reason, count, words in found]
    return f"{sum(counts.values()):,} skipped: {', '.join(parts)}"


def _advice(reason: Reason) -> str:
    """The package to install to read such files, if it is missing."""
    module, package = _READERS.get(reason, ("", ""))
    return f" (pip install {package})" if module and find_spec(module) is None else ""


class Problem(NamedTuple):
    """One file that is not used, and why."""

    path: str
    reason: Reason
    detail: str = ""


class BadImageError(Exception):
    """One file is unusable; the scan records it and continues."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else str(reason))
        self.reason = reason
        self.detail = detail

    def problem(self, path: str) -> Problem:
        return Problem(path, self.reason, self.detail)


def bad_file(error: OSError, path: str | None = None) -> BadImageError:
    """The operating system's error about one file, as a BadImageError.

    If the process ran out of file handles, the file is not at fault, and the error is raised again.
    """
    if error.errno in (errno.EMFILE, errno.ENFILE):
        raise error
    detail = error.strerror or str(error)
    if isinstance(error, PermissionError):
        return BadImageError(Reason.PERMISSION_DENIED, detail)
    if error.errno == errno.ELOOP:
        return BadImageError(Reason.LOOP_OF_LINKS, detail)
    if isinstance(error, FileNotFoundError) and path is not None and os.path.islink(path):  # noqa: PTH114 - speed
        return BadImageError(Reason.BROKEN_LINK, f"points to {printable(os.readlink(path))}")  # noqa: PTH115
    return BadImageError(Reason.UNREADABLE, detail)


def write_problems(path: Path, problems: Iterable[Problem]) -> None:
    """Write `problems.csv`: one record per file, sorted by path, in UTF-8, quoted if a name needs it."""
    rows = [(printable(one.path), str(one.reason), printable(one.detail)) for one in sorted(problems)]
    write_table(path, {name: [row[place] for row in rows] for place, name in enumerate(Problem._fields)})


def read_problems(path: Path) -> list[Problem]:
    """The records of a `problems.csv`."""
    with path.open(encoding="utf-8", newline="") as file:
        return [Problem(row["path"], Reason(row["reason"]), row["detail"]) for row in csv.DictReader(file)]
