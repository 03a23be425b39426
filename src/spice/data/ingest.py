"""From a source to a store in one pass: every file is read once, hashed, decoded, and kept at the working size.

Only decoding a whole file shows that the image is complete. A killed run resumes; a second run reads only new files.
"""

import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from filelock import FileLock

from spice.data.decode import MAX_PIXELS, Decoded, available_cores, decode, digest, pixel_hash
from spice.data.problems import BadImageError, bad_file, skipped_in_words
from spice.data.recognize import open_source
from spice.data.sources import Entry, Readable, Source, SourceLike
from spice.data.store import ImageStore, Originals
from spice.data.writer import Outcome, Writer, explain_store_errors
from spice.errors import NothingReadableError, UserError
from spice.files import printable
from spice.progress import Progress, silent

LIMIT_BYTES = 32 << 30

# A worker's group: many small images, to save overhead, or a few large ones, to save memory (images from a compressed
# tar are held in memory).
_GROUP_ENTRIES, _GROUP_BYTES = 16, 1 << 20

Examined = tuple[Outcome, Decoded | None]
# Replaces the threads of this process. Pixels may be None: then none are stored.
ExamineAll = Callable[[Source, list[Entry]], Iterator[list[Examined]]]


def ingest(
    source: SourceLike,
    *,
    size: int,
    folder: Path,
    limit_bytes: int = LIMIT_BYTES,
    max_pixels: int = MAX_PIXELS,
    leave_out: Iterable[Path] = (),
    rescan: bool = False,
    workers: int | None = None,
    examine_all: ExamineAll | None = None,
    progress: Progress = silent,
) -> ImageStore:
    """Read a source into a store in `folder`, with `images.parquet` and `problems.csv`.

    Args:
        size: the working size S; the largest centered square of each image is resized to S x S.
        limit_bytes: size limit of the store on disk; images beyond it are decoded on demand.
        max_pixels: larger images are a problem, not an image.
        leave_out: folders inside the source that are not part of it, such as a run's own.
        rescan: reread every file. Otherwise a file with the same name, size and modification time counts as unchanged.
        examine_all: reads the missing entries; None: threads of this process do.
    """
    if size < 1:
        raise ValueError(f"the working size must be at least 1 pixel, got {size}")
    opened = open_source(source, leave_out=[*leave_out, folder])
    entries, problems = opened.listing()
    decode_group = partial(examine, size=size, max_pixels=max_pixels)
    with _locked(folder), closing(Writer(folder, size, limit_bytes, restart=rescan)) as writer:
        missing = writer.journal.missing(entries)
        done, bad = len(entries) - len(missing), len(problems)
        progress("reading images", done, len(entries), _figures(bad))
        here = partial(_in_threads, decode_group, opened.contents(missing), workers or available_cores())
        for examined in here() if examine_all is None else examine_all(opened, missing):
            writer.add(examined)
            if writer.is_full and not opened.random_access:
                raise UserError(
                    f"{opened.label} does not fit into a store of {limit_bytes:,} bytes, and single images of a "
                    "compressed archive cannot be read again; unpack it, or allow a larger store"
                )
            done += len(examined)
            bad += sum(outcome.digest is None for outcome, _ in examined)
            progress("reading images", done, len(entries), _figures(bad))
        collection = writer.finish(entries, problems)
    if len(collection) == 0 and not collection.problems:
        raise NothingReadableError(f"{opened.label} contains no files; is the path right?")
    if len(collection) == 0:
        words = skipped_in_words(Counter(problem.reason for problem in collection.problems))
        raise NothingReadableError(f"{opened.label} contains no readable image; {words}")
    verified = np.isin(collection.numbers, [entry.number for entry in missing])
    return ImageStore(folder, collection, size, Originals(opened, entries, collection), verified=verified)


def _figures(bad: int) -> dict[str, float]:
    """The number of problems, if there are any."""
    return {"problems": bad} if bad else {}


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Wait if another process is filling the same store; what it has read is then reused."""
    with explain_store_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / "lock").acquire()
    with lock:
        yield


def _in_threads(
    decode_group: Callable[[list[Readable]], list[Examined]], entries: Iterable[Readable], workers: int
) -> Iterator[list[Examined]]:
    """Examine all entries in threads (Pillow decodes without Python's lock), a few groups ahead, in order."""
    waiting: deque[Future[list[Examined]]] = deque()
    pool = ThreadPoolExecutor(workers)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")  # it warns of flaws that change no pixel
        try:
            for group in _groups(entries):
                waiting.append(pool.submit(decode_group, group))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _groups(entries: Iterable[Readable]) -> Iterator[list[Readable]]:
    group, length = list[Readable](), 0
    for entry in entries:
        group.append(entry)
        length += entry[0].length
        if len(group) == _GROUP_ENTRIES or length >= _GROUP_BYTES:
            yield group
            group, length = [], 0
    if group:
        yield group


def examine(group: list[Readable], *, size: int, max_pixels: int = MAX_PIXELS) -> list[Examined]:
    """The outcome of every entry of a group, and its pixels."""
    examined = list[Examined]()
    for entry, read in group:
        try:
            content = read()
            decoded = decode(content, size, max_pixels=max_pixels)
            pixels = decoded.pixels
            found = Outcome(entry, digest(content), decoded.width, decoded.height, len(pixels) == 1)
            examined.append((found._replace(pixels=pixel_hash(pixels)), decoded))
        except (BadImageError, OSError) as error:
            bad = bad_file(error) if isinstance(error, OSError) else error
            examined.append((Outcome(entry, reason=bad.reason, detail=printable(bad.detail)), None))
    return examined
