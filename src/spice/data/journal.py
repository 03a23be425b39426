"""What has become of every entry so far, written in parts, so that a killed run goes on where it was.

A part is written whole (temporary name, then rename) and only after the pixels it speaks of are on disk.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spice.data.collection import Collection, in_order
from spice.data.problems import Problem, Reason, printable
from spice.data.sources import Entry
from spice.files import written_atomically


class Outcome(NamedTuple):
    """What has become of one entry: an image if `digest` is there, else a problem."""

    entry: Entry
    digest: str | None = None
    width: int = 0
    height: int = 0
    gray: bool = False
    row: int = -1
    reason: Reason | None = None
    detail: str = ""


_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("hash", pa.string()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("gray", pa.bool_()),
        ("row", pa.int64()),
        ("reason", pa.string()),
        ("detail", pa.string()),
    ]
)


class Journal:
    """Outcomes by entry, kept in `folder`.

    Problems are forgotten when the journal is opened again: the user may have mended them without touching the file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables = [_SCHEMA.empty_table()]
        self._parts = 0
        folder.mkdir(exist_ok=True)
        for path in sorted(folder.glob("*.parquet")):
            part = pq.read_table(path)
            self._tables.append(part.filter(pc.is_valid(part.column("hash"))))
            self._parts = int(path.stem) + 1

    def forget_unstored(self) -> None:
        """Take images that were left out of the store as not seen yet: there is room for them now."""
        self._tables = [table.filter(pc.greater_equal(table.column("row"), 0)) for table in self._tables]

    def append(self, outcomes: Sequence[Outcome]) -> None:
        """Add one or more outcomes; once this returns they survive a kill."""
        entries, *columns = (list(column) for column in zip(*outcomes, strict=True))
        keys = [_key(entry) for entry in entries]
        table = pa.table([keys, *columns], schema=_SCHEMA)
        self._tables.append(table)
        with written_atomically(self._folder / f"{self._parts:08d}.parquet") as temporary:
            pq.write_table(table, temporary)
        self._parts += 1

    def missing(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entries without an outcome, each key once."""
        places = self._find(entries)
        return list({_key(entry): entry for entry, place in zip(entries, places, strict=True) if place < 0}.values())

    def rows(self) -> tuple[int, int]:
        """How many rows of the gray and of the color file are spoken of."""
        table = self._all()
        gray = np.asarray(table.column("gray"), dtype=np.bool_)
        rows = np.asarray(table.column("row"), dtype=np.int64)
        return int(rows[gray].max(initial=-1)) + 1, int(rows[~gray].max(initial=-1)) + 1

    def collection(self, entries: Sequence[Entry], problems: Sequence[Problem]) -> Collection:
        """The collection these entries make, all of which have an outcome; `problems` are those met while listing."""
        table = self._all().take(pa.array(self._find(entries)))
        table = table.drop_columns(["key"])
        table = table.append_column("path", pa.array([printable(entry.name) for entry in entries], pa.string()))
        table = table.append_column("number", pa.array([entry.number for entry in entries], pa.int64()))
        good = pc.is_valid(table.column("hash"))
        bad = table.filter(pc.invert(good)).select(["path", "reason", "detail"])
        more = [
            Problem(path, Reason(reason), detail)
            for path, reason, detail in zip(*bad.to_pydict().values(), strict=True)
        ]
        return in_order(table.filter(good).drop_columns(["reason", "detail"]), [*problems, *more])

    def _all(self) -> pa.Table:
        """Every outcome, the latest first, so that it is the one found."""
        return pa.concat_tables(self._tables[::-1])

    def _find(self, entries: Sequence[Entry]) -> NDArray[np.int64]:
        """Where each entry's outcome is, -1 where it has none."""
        keys = pa.array([_key(entry) for entry in entries], pa.binary())
        known = self._all().column("key").combine_chunks()
        return np.asarray(pc.fill_null(pc.index_in(keys, value_set=known), -1), dtype=np.int64)


def _key(entry: Entry) -> bytes:
    return entry.name.encode("utf-8", "surrogatepass") + b"\0" + entry.stamp.encode()
