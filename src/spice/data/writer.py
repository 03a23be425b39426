"""Writes a store so that a killed run can resume.

Pixels are appended to two files. A journal records the outcome of every entry in parts: each is written whole
(temporary name, then rename), and only after the pixels that it refers to are on disk.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spice import arrays
from spice.data.collection import SCHEMA, Collection, collection_of_images
from spice.data.decode import DECODING, Decoded
from spice.data.pixels import COLOR, GRAY
from spice.data.problems import Problem, Reason
from spice.data.sources import Entry
from spice.errors import UserError
from spice.files import printable, remove, write_text, written_atomically
from spice.tables import read_parquet

JOURNAL, _DESCRIPTION = "journal", "store.json"

# At most this much work is lost if the process is killed.
_SECONDS_BETWEEN_PARTS = 3.0
_IMAGES_PER_PART = 8192

# Few large writes: after each, the main thread competes with the decoding threads for Python's lock.
_BYTES_AT_ONCE = 1 << 20
# This much is synced while more images are decoded, so that the last sync takes less time.
_BYTES_AHEAD = 8 << 20


class Outcome(NamedTuple):
    """The outcome of one entry: an image if it has a `digest`, else a problem."""

    entry: Entry
    digest: str | None = None
    width: int = 0
    height: int = 0
    gray: bool = False
    row: int = -1
    pixels: str | None = None  # hash of them, as they are in the store
    reason: Reason | None = None
    detail: str = ""


_IN_TABLE = [SCHEMA.field(name) for name in ("hash", "width", "height", "gray", "row", "pixels")]
_SCHEMA = pa.schema([("key", pa.binary()), *_IN_TABLE, ("reason", pa.string()), ("detail", pa.string())])


class Writer:
    """Adds decoded images to the store in a folder; pixels first, then the journal that refers to them."""

    def __init__(self, folder: Path, size: int, limit_bytes: int, *, restart: bool = False) -> None:
        """Continue the store in `folder`, or start it again."""
        self.folder = folder
        self.is_full = False
        self._limit = limit_bytes
        self._pending: list[Outcome] = []
        self._saved = time.monotonic()
        with explain_store_errors(folder):
            if restart:
                _clear(folder, size)
            try:
                self._open(size)
            except ValueError:
                _clear(folder, size)
                self._open(size)
        if self._has_room(self._color):
            self.journal.forget_unstored()

    def add(self, examined: Sequence[tuple[Outcome, Decoded | None]]) -> None:
        """Store the pixels as long as there is room, and record all outcomes."""
        with explain_store_errors(self.folder):
            for outcome, decoded in examined:
                row = -1 if decoded is None else self._keep(decoded)
                self._pending.append(outcome._replace(row=row))
            due = time.monotonic() - self._saved > _SECONDS_BETWEEN_PARTS
            if due or len(self._pending) >= _IMAGES_PER_PART:
                self._save()

    def finish(self, entries: list[Entry], problems: list[Problem]) -> Collection:
        """Save pending outcomes, and write the table."""
        with explain_store_errors(self.folder):
            self._save()
            collection = self.journal.collection(entries, problems)
            collection.save(self.folder)
        return collection

    def close(self) -> None:
        self._gray.close()
        self._color.close()

    def _open(self, size: int) -> None:
        """Continue the store in the folder; a ValueError if there is none of this size, or a damaged one."""
        description, expected = self.folder / _DESCRIPTION, {"format": DECODING, "size": size}
        if not description.is_file() or json.loads(description.read_text(encoding="utf-8")) != expected:
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

    def _has_room(self, file: "PixelFile") -> bool:
        return self._gray.bytes + self._color.bytes + file.row_bytes <= self._limit

    def _save(self) -> None:
        if self._pending:
            self._gray.sync()
            self._color.sync()
            self.journal.append(self._pending)
        self._pending = []
        self._saved = time.monotonic()


@contextmanager
def explain_store_errors(folder: Path) -> Iterator[None]:
    """Report a full disk or a read-only folder to the user; what has been written is kept."""
    try:
        yield
    except OSError as error:
        raise UserError(f"the store in {folder} cannot be written: {error.strerror or error}") from error


def _clear(folder: Path, size: int) -> None:
    """Remove a store of another working size or version, or a damaged one, and start a new one."""
    for name in (_DESCRIPTION, GRAY, COLOR):
        arrays.remove_array(folder / name)
    for name in ("images.parquet", "problems.csv"):
        remove(folder / name)
    shutil.rmtree(folder / JOURNAL, ignore_errors=True)
    write_text(folder / _DESCRIPTION, json.dumps({"format": DECODING, "size": size}))


class PixelFile:
    """Images (C, S, S) appended to a file, and to further pieces of it when that is full.

    Written through file handles: a full disk is an error there, not a crash.
    """

    def __init__(self, path: Path, channels: int, size: int, *, rows: int) -> None:
        """Continue after the first `rows` images; what a killed run wrote beyond them is dropped."""
        self.rows = rows
        self.row_bytes = channels * size * size
        self._path = path
        path.touch()
        full, rest = divmod(self.bytes, arrays.PIECE_BYTES)
        for unused in arrays.further_pieces(path)[full:]:
            unused.unlink()
        sizes = [one.stat().st_size for one in (path, *arrays.further_pieces(path))]
        if any(length != arrays.PIECE_BYTES for length in sizes[:full]) or sum(sizes) < self.bytes:
            raise ValueError(f"{path} does not hold the {rows} images that it should")
        self._file = self._open(full)
        self._file.truncate(rest)
        self._file.seek(rest)
        self._disk = ThreadPoolExecutor(1)
        self._syncing: Future[None] | None = None
        self._synced = self.bytes

    @property
    def bytes(self) -> int:
        return self.rows * self.row_bytes

    def append(self, pixels: NDArray[np.uint8]) -> int:
        """Add one image; the number of its row."""
        room = arrays.PIECE_BYTES - self.bytes % arrays.PIECE_BYTES
        content = pixels.reshape(-1)
        self._file.write(content[:room].data)
        if len(content) >= room:
            self._next_piece()
            self._file.write(content[room:].data)
        self.rows += 1
        if self.bytes - self._synced >= _BYTES_AHEAD and (self._syncing is None or self._syncing.done()):
            self._wait()
            self._syncing = self._disk.submit(os.fsync, self._file.fileno())
            self._synced = self.bytes
        return self.rows - 1

    def sync(self) -> None:
        """Return when all that was appended is on the disk."""
        self._wait()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._synced = self.bytes

    def _open(self, number: int) -> BinaryIO:
        place = arrays.piece(self._path, number)
        place.touch()
        return place.open("r+b", buffering=_BYTES_AT_ONCE)

    def _next_piece(self) -> None:
        self.sync()
        self._file.close()
        self._file = self._open(self.bytes // arrays.PIECE_BYTES + 1)

    def _wait(self) -> None:
        """Wait for the disk, and raise its error, which is reported only once."""
        syncing, self._syncing = self._syncing, None
        if syncing is not None:
            syncing.result()

    def close(self) -> None:
        self._disk.shutdown()
        with suppress(OSError):  # a full disk: everything that the journal refers to was synced before
            self._file.close()


class Journal:
    """Outcomes by entry, kept in `folder`.

    Problems are forgotten when the journal is opened again: the user may have fixed them without touching the file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables = [_SCHEMA.empty_table()]
        self._parts = 0
        folder.mkdir(exist_ok=True)
        for path in sorted(folder.glob("*.parquet")):
            try:
                part = read_parquet(path)
            except OSError as error:
                if error.errno is not None:
                    raise
                raise ValueError(f"{path} is damaged") from error  # which pyarrow reports as an error of the disk
            self._tables.append(part.filter(pc.is_valid(part["hash"])))
            self._parts = int(path.stem) + 1

    def forget_unstored(self) -> None:
        """Treat images that are not in the store as new: there is room for them now."""
        self._tables = [table.filter(pc.greater_equal(table["row"], 0)) for table in self._tables]

    def append(self, outcomes: Sequence[Outcome]) -> None:
        """Add one or more outcomes; once this returns they survive a kill."""
        entries, *columns = (list(column) for column in zip(*outcomes, strict=True))
        table = pa.table([[_key(entry) for entry in entries], *columns], schema=_SCHEMA)
        self._tables.append(table)
        with written_atomically(self._folder / f"{self._parts:08d}.parquet") as temporary:
            pq.write_table(table, temporary, write_page_checksum=True)
        self._parts += 1

    def missing(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entries without an outcome, each key once."""
        places = self._find(entries)
        return list({_key(entry): entry for entry, place in zip(entries, places, strict=True) if place < 0}.values())

    def rows(self) -> tuple[int, int]:
        """How many rows of the gray and of the color file the journal refers to."""
        table = self._all()
        gray = np.asarray(table["gray"], dtype=np.bool_)
        rows = np.asarray(table["row"], dtype=np.int64)
        return int(rows[gray].max(initial=-1)) + 1, int(rows[~gray].max(initial=-1)) + 1

    def collection(self, entries: Sequence[Entry], problems: Sequence[Problem]) -> Collection:
        """The collection of these entries, all of which have an outcome; `problems` are those of the listing."""
        table = self._all().take(pa.array(self._find(entries))).drop_columns(["key"])
        table = table.append_column("path", pa.array([printable(entry.name) for entry in entries], pa.string()))
        table = table.append_column("number", pa.array([entry.number for entry in entries], pa.int64()))
        good = pc.is_valid(table["hash"])
        bad = table.filter(pc.invert(good)).select(["path", "reason", "detail"]).to_pylist()
        more = [Problem(row["path"], Reason(row["reason"]), row["detail"]) for row in bad]
        return collection_of_images(table.filter(good).drop_columns(["reason", "detail"]), [*problems, *more])

    def _all(self) -> pa.Table:
        """Every outcome, the latest first, so that a search returns that one."""
        return pa.concat_tables(self._tables[::-1])

    def _find(self, entries: Sequence[Entry]) -> NDArray[np.int64]:
        """The place of each entry's outcome, -1 if it has none."""
        keys = pa.array([_key(entry) for entry in entries], pa.binary())
        known = self._all()["key"].combine_chunks()
        return np.asarray(pc.fill_null(pc.index_in(keys, value_set=known), -1), dtype=np.int64)


def _key(entry: Entry) -> bytes:
    return entry.name.encode("utf-8", "surrogatepass") + b"\0" + entry.stamp.encode()
