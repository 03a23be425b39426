"""From a source to a store in one pass: every file is read once, hashed, decoded, and kept at the working size.

A run killed at any moment goes on where it was; a second run over an unchanged source reads nothing again, and one
over a source that has grown reads what is new.
"""

import json
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from filelock import FileLock

from spice.data.collection import Collection
from spice.data.decode import MAX_PIXELS, Decoded
from spice.data.journal import Journal, Outcome
from spice.data.pixels import PixelFile
from spice.data.problems import Problem
from spice.data.recognize import open_source
from spice.data.scan import TASK, Examined, examine, listing, not_empty
from spice.data.sources import Entry, SourceLike
from spice.data.store import COLOR, GRAY, JOURNAL, STORE, ImageStore, Streamed
from spice.errors import UserError
from spice.files import written_atomically
from spice.progress import Progress, silent

LIMIT_BYTES = 32 << 30

# How much work a kill may cost.
_SECONDS_BETWEEN_PARTS = 3.0
_IMAGES_PER_PART = 8192

_FORMAT = 1


def ingest(
    source: SourceLike,
    *,
    size: int,
    folder: Path,
    limit_bytes: int = LIMIT_BYTES,
    max_pixels: int = MAX_PIXELS,
    leave_out: Iterable[Path] = (),
    workers: int | None = None,
    progress: Progress = silent,
) -> ImageStore:
    """Read a source into a store in `folder`, with `images.parquet` and `problems.csv` beside it.

    Args:
        size: the working size S; the largest centered square of each image is resized to S x S.
        limit_bytes: what the store may take on disk; images beyond it are decoded whenever they are needed.
        max_pixels: larger images are a problem, not an image.
        leave_out: folders inside the source that are not part of it, such as a run's own.
    """
    if size < 1:
        raise ValueError(f"a working size of {size} pixels is no size")
    opened = open_source(source, leave_out=[*leave_out, folder])
    entries, problems = listing(opened)
    with _alone_in(folder), closing(_Writer(folder, size, limit_bytes)) as writer:
        missing = writer.journal.missing(entries)
        done, bad = len(entries) - len(missing), len(problems)
        progress(TASK, done, len(entries), {"problems": bad})
        for examined in examine(opened, missing, size=size, max_pixels=max_pixels, workers=workers):
            writer.add(examined)
            if writer.is_full and not opened.any_order:
                raise UserError(
                    f"{opened.label} does not fit into a store of {limit_bytes:,} bytes, and being compressed cannot "
                    "be read again image by image: unpack it, or allow a larger store"
                )
            done += len(examined)
            bad += sum(item.decoded is None for item in examined)
            progress(TASK, done, len(entries), {"problems": bad})
        collection = writer.finish(entries, problems)
    not_empty(collection, opened.label)
    streamed = Streamed(opened, entries, collection, size) if bool((collection.rows < 0).any()) else None
    return ImageStore(folder, collection, size, streamed)


class _Writer:
    """The files of a store while it grows: pixels first, then the journal that speaks of them."""

    def __init__(self, folder: Path, size: int, limit_bytes: int) -> None:
        self.folder = folder
        self.is_full = False
        self._limit = limit_bytes
        self._pending: list[Outcome] = []
        self._saved = time.monotonic()
        with _write_errors(folder):
            try:
                self._open(size)
            except ValueError:
                _clear(folder, size)
                self._open(size)
        if self._has_room(self._color):
            self.journal.forget_unstored()

    def add(self, examined: list[Examined]) -> None:
        """Keep what was decoded, as far as there is room."""
        with _write_errors(self.folder):
            for item in examined:
                row = -1 if item.decoded is None else self._keep(item.decoded)
                self._pending.append(item.outcome._replace(row=row))
            due = time.monotonic() - self._saved > _SECONDS_BETWEEN_PARTS
            if due or len(self._pending) >= _IMAGES_PER_PART:
                self._save()

    def finish(self, entries: list[Entry], problems: list[Problem]) -> Collection:
        """All on disk, and the table written."""
        with _write_errors(self.folder):
            self._save()
            collection = self.journal.collection(entries, problems)
            collection.save(self.folder)
        return collection

    def close(self) -> None:
        self._gray.close()
        self._color.close()

    def _open(self, size: int) -> None:
        """Go on with what is in the folder; a ValueError if that is no store of this size, or a damaged one."""
        if not (self.folder / STORE).is_file() or json.loads((self.folder / STORE).read_text()) != _description(size):
            raise ValueError("not a store of this size")
        self.journal = Journal(self.folder / JOURNAL)
        gray, color = self.journal.rows()
        self._gray = PixelFile(self.folder / GRAY, 1, size, rows=gray)
        self._color = PixelFile(self.folder / COLOR, 3, size, rows=color)

    def _keep(self, decoded: Decoded) -> int:
        file = self._gray if len(decoded.pixels) == 1 else self._color
        if not self._has_room(file):
            self.is_full = True
            return -1
        return file.append(decoded.pixels)

    def _has_room(self, file: PixelFile) -> bool:
        return self._gray.bytes + self._color.bytes + file.row_bytes <= self._limit

    def _save(self) -> None:
        if self._pending:
            self._gray.sync()
            self._color.sync()
            self.journal.append(self._pending)
        self._pending = []
        self._saved = time.monotonic()


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Wait while another process fills the same store; what it has read need not be read again."""
    with _write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / "lock").acquire()
    with lock:
        yield


@contextmanager
def _write_errors(folder: Path) -> Iterator[None]:
    """Report a full disk or a read-only folder to the user; what has been written is kept."""
    try:
        yield
    except OSError as error:
        raise UserError(f"the store in {folder} cannot be written: {error.strerror or error}") from error


def _description(size: int) -> dict[str, int]:
    return {"format": _FORMAT, "size": size}


def _clear(folder: Path, size: int) -> None:
    """Remove a store of another working size or version, or a damaged one, and begin anew."""
    for name in (STORE, GRAY, COLOR, "images.parquet", "problems.csv"):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / JOURNAL, ignore_errors=True)
    with written_atomically(folder / STORE) as temporary:
        temporary.write_text(json.dumps(_description(size)))
