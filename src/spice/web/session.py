"""An open run: its current result with all edits applied, reread whenever someone changes it."""

import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from spice.arrays import open_array
from spice.errors import UserError
from spice.report import renew_report
from spice.runs import Labels, Result, open_result, update_csv
from spice.runs.artifacts import LABELS_CSV, MAP, TREE
from spice.runs.checks import Checks
from spice.runs.edited_csv import write_edited_csv
from spice.runs.editor import Editor
from spice.runs.edits import EDITS, Edits, Operation
from spice.runs.groups import Groups
from spice.runs.manifest import MANIFEST
from spice.runs.suggested_names import ImageWords, read_words
from spice.stages.groups.merge_tree import MergeTree
from spice.web.csv_updater import CsvUpdater
from spice.web.pictures import Pictures


class OpenResult:
    """One result of the run, and those of its files that are read only once."""

    def __init__(self, run: Path, result: Result) -> None:
        self.result = result
        self.editor = Editor(run, result)

    @property
    def labels(self) -> Labels:
        """The labels before edits."""
        return self.result.labels

    @cached_property
    def pictures(self) -> Pictures:
        return Pictures(self.result)

    @cached_property
    def tree(self) -> MergeTree | None:
        """Groups within groups; None if the run has no tree."""
        source = self.result.with_step("tree")
        if source is None or not (source / TREE).exists():
            return None
        with np.load(source.need(TREE)) as saved:
            return MergeTree(**saved)

    @cached_property
    def words(self) -> ImageWords | None:
        """The classes that the encoder itself predicts; None if it has no classifier."""
        return read_words(self.result)

    @cached_property
    def points(self) -> NDArray[np.float32] | None:  # (N, 2)
        path = self.result / MAP
        return open_array(path) if path.exists() else None


class State:
    """The run at one moment. Never changes: an edit creates a new state."""

    def __init__(self, opened: OpenResult, edits: Edits, groups: Groups) -> None:
        self.opened, self.edits, self.groups = opened, edits, groups

    @cached_property
    def checks(self) -> Checks:
        """The chances of the current groups, and the answers of a check by hand."""
        return Checks(self.opened.result)

    @property
    def version(self) -> str:
        """Changes whenever the page would look different."""
        return f"{self.opened.result.name}-{self.edits.revision}"


class Session:
    """The run behind the page. Safe to use from several threads."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self._lock = threading.RLock()
        self._opened = OpenResult(run, open_result(run))
        self._stamp: tuple[tuple[int, ...], ...] = ()
        self._state: State | None = None
        self._csv = CsvUpdater(run)
        self._revision = self.state().edits.revision
        if self._revision:  # the last explorer may have been killed before it wrote the table
            self._csv.changed()

    def table(self) -> bytes:
        """The current content of `labels.csv`, also for a large collection, which has no such file."""
        with self._lock:
            update_csv(self.run)
            result = self.state().opened.result.reread()
        if (result / LABELS_CSV).exists():
            return (result / LABELS_CSV).read_bytes()
        with TemporaryDirectory(prefix="spice-") as folder:
            path = Path(folder) / LABELS_CSV.name
            write_edited_csv(path, result)
            return path.read_bytes()

    def close(self) -> None:
        """Bring `labels.csv` and the report up to date."""
        self._csv.close()
        if self.state().edits.revision != self._revision:
            renew_report(self.run)

    def state(self) -> State:
        """The run as it is now."""
        with self._lock:
            stamp = _stamp(self.run / MANIFEST), _stamp(self.run / EDITS)
            if self._state is None or stamp != self._stamp:
                result = open_result(self.run)
                if result.name != self._opened.result.name or result.entry != self._opened.result.entry:
                    self._opened = OpenResult(self.run, result)
                edits = self._opened.editor.edits
                self._state = State(self._opened, edits, self._opened.result.groups_after(edits))
                if self._stamp:
                    self._csv.changed()
                self._stamp = stamp
            return self._state

    def edit(self, version: str, decide: Callable[[State], list[Operation]]) -> State:
        """Add operations to the edits; refused if the page shows an outdated state."""
        with self._lock:
            expected = self._expected(version)
            for operation in decide(self.state()):
                self._opened.editor.do(operation, expected=expected)
                expected += 1
            return self.state()

    def undo(self, version: str) -> State:
        with self._lock:
            self._opened.editor.undo(expected=self._expected(version))
            return self.state()

    def redo(self, version: str) -> State:
        with self._lock:
            self._opened.editor.redo(expected=self._expected(version))
            return self.state()

    def _expected(self, version: str) -> int:
        state = self.state()
        if version != state.version:
            raise StalePageError("The groups were changed elsewhere. This page is now up to date.")
        return state.edits.revision


class StalePageError(UserError):
    """The page shows the run as it was before a change made elsewhere."""


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino
