"""Looking at every entry of a source once: read, hashed and fully decoded, with one outcome each.

Nothing less than decoding all of a file tells a whole image from a broken one.
"""

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from spice.data.arrays import digest
from spice.data.collection import Collection
from spice.data.decode import MAX_PIXELS, Content, Decoded, decode
from spice.data.journal import Outcome
from spice.data.problems import BadImageError, Problem, bad_file, printable
from spice.data.sources import Entry, Piece, Source
from spice.errors import NothingReadableError

TASK = "reading images"

# What a worker takes at once: small images cost less than handing them over one by one, and of large ones few may wait
# in memory (a compressed tar is read before it is handed over).
_GROUP_ENTRIES, _GROUP_BYTES = 16, 1 << 20


class Examined(NamedTuple):
    """The outcome of one entry, and its pixels if it is an image."""

    outcome: Outcome
    decoded: Decoded | None


def listing(source: Source) -> tuple[list[Entry], list[Problem]]:
    """The entries of a source, and the problems met before any content was read."""
    entries, problems = list[Entry](), list[Problem]()
    for item in source.entries():
        if isinstance(item, Problem):
            problems.append(item)
        else:
            entries.append(item)
    return entries, problems


def examine(
    source: Source, entries: Sequence[Entry], *, size: int, max_pixels: int = MAX_PIXELS, workers: int | None = None
) -> Iterator[list[Examined]]:
    """Read and decode all entries in threads (Pillow decodes outside Python's lock), a few groups ahead, in order."""
    workers = workers or available_cores()
    waiting: deque[Future[list[Examined]]] = deque()
    pool = ThreadPoolExecutor(workers)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")  # it warns of flaws that do not cost a pixel
        try:
            for group in _groups(source.contents(entries)):
                waiting.append(pool.submit(_examine_group, group, size, max_pixels))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def not_empty(collection: Collection, label: str) -> Collection:
    """The collection, unless it holds no image: then an error that says what was there instead."""
    if len(collection) > 0:
        return collection
    if not collection.problems:
        raise NothingReadableError(f"{label} holds no file at all: is it the right place?")
    first = collection.problems[0]
    raise NothingReadableError(
        f"{label} holds no image that can be read ({len(collection.problems):,} files with problems; "
        f"the first: {first.path}, {first.reason})"
    )


def available_cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _groups(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    group, length = list[Piece](), 0
    for piece in pieces:
        group.append(piece)
        length += piece[0].length
        if len(group) == _GROUP_ENTRIES or length >= _GROUP_BYTES:
            yield group
            group, length = [], 0
    if group:
        yield group


def _examine_group(group: list[Piece], size: int, max_pixels: int) -> list[Examined]:
    return [_examine_one(entry, load, size, max_pixels) for entry, load in group]


def _examine_one(entry: Entry, load: Callable[[], Content], size: int, max_pixels: int) -> Examined:
    try:
        content = load()
        decoded = decode(content, size, max_pixels=max_pixels)
        gray = len(decoded.pixels) == 1
        return Examined(Outcome(entry, digest(content), decoded.width, decoded.height, gray), decoded)
    except BadImageError as error:
        bad = error
    except OSError as error:
        bad = bad_file(error)
    return Examined(Outcome(entry, reason=bad.reason, detail=printable(bad.detail)), None)
