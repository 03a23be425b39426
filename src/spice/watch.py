"""Watch a folder: sort new images into the groups of a run as they arrive, and append them to a table.

The folder is listed at intervals, which works on every system and on network drives. A file is read when two listings
in a row found it unchanged, so that a camera or scanner can finish writing it. The table names the folder of each
image, because several watched folders may have files of the same name.
"""

import csv
import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from spice.data.recognize import open_source
from spice.data.sources import Entry
from spice.errors import NothingReadableError, UserError
from spice.estimator import SPICE
from spice.runs import explain_write_errors, open_result
from spice.tables import Column, write_csv, write_table

WATCHED = "watched.csv"
FOLDER = "folder"  # the last column
# With `once`, a file that has not changed for this long counts as complete.
_SETTLED_SECONDS = 1.0


class Arrived(NamedTuple):
    """A new image and its group."""

    path: str
    group: int
    name: str  # of the group; empty if it has none
    chance: float
    unlike: bool  # unlike anything seen in the run


class Watcher:
    """Sorts the new images of a folder into the groups of a run, and appends them to `RUN/watched.csv`.

    A table of an earlier version does not name folders, so its images count as known in every folder. `by_name_only`
    is the number of files in this folder that are skipped for that reason.
    """

    def __init__(self, folder: Path, run: Path, model: SPICE) -> None:
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder} to watch")
        self.folder, self.run, self.model = folder, run, model
        self.table, self.count = run / WATCHED, 0
        self._absolute = str(folder.resolve())
        rows = _rows_of(self.table)
        in_folder = self._in_run() | {row["path"] for row in rows if row.get(FOLDER) == self._absolute}
        in_any_folder = {row["path"] for row in rows if not row.get(FOLDER)}
        self.by_name_only = len((in_any_folder - in_folder) & {entry.name for entry in self._entries()})
        self._known = in_folder | in_any_folder
        self._waiting: dict[str, str] = {}  # path -> stamp at the last listing
        self._unreadable: dict[str, str] = {}  # path -> stamp of a file that could not be read
        self._unreported: list[str] = []  # unreadable files that `unreadable` has not returned yet

    def watch(self, *, every: float) -> Iterator[list[Arrived]]:
        """Yield what has arrived since the last listing, possibly nothing, until stopped."""
        while True:
            yield self.look()
            time.sleep(every)

    def once(self, *, sleep: Callable[[float], None] = time.sleep) -> list[Arrived]:
        """The new images, without files that are still being written."""
        self.look()
        sleep(_SETTLED_SECONDS)
        return self.look()

    def look(self) -> list[Arrived]:
        """List the folder, and sort the new images that have not changed since the last listing."""
        listed = {entry.name: entry.stamp for entry in self._entries() if entry.length}
        new = {
            name: stamp
            for name, stamp in listed.items()
            if name not in self._known and self._unreadable.get(name) != stamp
        }
        settled = [name for name, stamp in new.items() if self._waiting.get(name) == stamp]
        self._waiting = new
        return self._sort(settled, new) if settled else []

    def unreadable(self) -> list[str]:
        """The files that could not be read since the last call; each is tried again when it changes."""
        names, self._unreported = self._unreported, []
        return names

    def _entries(self) -> list[Entry]:
        return open_source(str(self.folder), leave_out=[self.run]).listing()[0]

    def _sort(self, names: list[str], stamps: dict[str, str]) -> list[Arrived]:
        paths = {str(self.folder / name): name for name in names}
        try:
            found = self.model.assess(list(paths))
        except NothingReadableError:
            self._mark_unreadable(names, stamps)
            return []
        read = [paths[path] for path in found.paths]
        self._mark_unreadable([name for name in names if name not in read], stamps)
        groups = open_result(self.run).groups.predicted(found.predictions.cluster)  # after edits so far
        columns: dict[str, Column] = {**found.columns(), **groups, "path": read, FOLDER: [self._absolute] * len(read)}
        with explain_write_errors(self.run):
            _append(self.table, columns)
        self._known.update(read)
        self.count += len(read)
        chance, unlike = found.predictions.chance.tolist(), found.predictions.unlike.tolist()
        return list(map(Arrived, read, map(int, groups["group"]), map(str, groups["name"]), chance, unlike))

    def _mark_unreadable(self, names: list[str], stamps: dict[str, str]) -> None:
        self._unreadable |= {name: stamps[name] for name in names}
        self._unreported += names

    def _in_run(self) -> set[str]:
        """The images of the run that are in this folder, by their paths relative to it."""
        result = open_result(self.run)
        source = result.manifest.source
        if source is None:
            return set()
        inside = (Path(source).resolve() / path for path in result.labels.path)
        folder = self.folder.resolve()
        return {path.relative_to(folder).as_posix() for path in inside if path.is_relative_to(folder)}


def _append(table: Path, columns: dict[str, Column]) -> None:
    """Add rows to the table, after removing an incomplete last line."""
    text = io.StringIO()
    write_csv(text, columns)
    header, _, rows = text.getvalue().partition("\n")
    _add_folder_column(table)
    with table.open("ab+") as file:
        file.seek(0)
        whole = file.read().rpartition(b"\n")
        file.truncate(len(whole[0]) + len(whole[1]))
        file.write((rows if whole[1] else f"{header}\n{rows}").encode("utf-8"))


def _add_folder_column(table: Path) -> None:
    """Add the last column, empty, to a table of an earlier version."""
    rows = _rows_of(table)
    if rows and FOLDER not in rows[0]:
        columns: dict[str, Column] = {name: [row[name] for row in rows] for name in rows[0]}
        write_table(table, {**columns, FOLDER: [""] * len(rows)})


def _rows_of(table: Path) -> list[dict[str, str]]:
    """The complete rows of the table."""
    if not table.exists():
        return []
    text = table.read_bytes().decode("utf-8")
    return list(csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1], newline="")))
