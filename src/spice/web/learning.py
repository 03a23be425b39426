"""Learning from corrections while the page stays usable: started, watched, canceled, then accepted or not."""

import threading
from collections.abc import Mapping

import numpy as np
from pydantic import JsonValue

from spice.errors import UserError
from spice.progress import Progress
from spice.web.session import Session, StalePageError, State
from spice.web.tools import Proposal, Tools

# Of each way that images would move, so many are shown.
SHOWN = 24


class _CanceledError(Exception):
    """Ends the training, from inside its report of progress."""


class Learning:
    """At most one training at a time, in a thread of its own."""

    def __init__(self, session: Session, tools: Tools) -> None:
        self._session, self._learn = session, tools.learn
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._cancel = threading.Event()
        self._done, self._total = 0, 1
        self._found: tuple[str, Proposal] | None = None  # the version that it learned from
        self._error: str | None = None

    def start(self) -> None:
        """Begin, unless it has begun."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            self._found = self._error = None
            self._done, self._total = 0, 1
            self._cancel.clear()
            self._thread = threading.Thread(target=self._work, name="learning", daemon=True)
            self._thread.start()

    def cancel(self) -> None:
        """Stop, and forget what was found."""
        self._cancel.set()
        if self._thread is not None:
            self._thread.join()
        self._found = self._error = None

    def accept(self) -> State:
        """Make the proposal count."""
        state = self._session.state()
        if self._found is None or self._found[0] != state.version:
            raise StalePageError("The groups have changed in the meantime; learn again.")
        self._found[1].accept()
        self._found = None
        return self._session.state()

    def describe(self) -> dict[str, JsonValue]:
        """How far it is, and what would move."""
        state = self._session.state()
        running = self._thread is not None and self._thread.is_alive()
        found = self._found if self._found is not None and self._found[0] == state.version else None
        return {
            "placed": int(state.groups.by_person.sum()),
            "named": len(state.groups.names),
            "edits": len(state.edits.of_result(state.opened.result.name)),
            "running": running,
            "progress": self._done / max(1, self._total),
            "error": self._error,
            "ways": None if found is None or running else _ways(state, found[1]),
        }

    def _work(self) -> None:
        version = self._session.state().version
        try:
            self._found = version, self._learn(_watched(self))
        except _CanceledError:
            pass
        except (UserError, OSError) as error:
            self._error = str(error)

    def report(self, done: int, total: int) -> None:
        """One step was made."""
        if self._cancel.is_set():
            raise _CanceledError
        self._done, self._total = done, total


def _watched(learning: Learning) -> Progress:
    def progress(task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:  # noqa: ARG001
        learning.report(done, total)

    return progress


def _ways(state: State, proposal: Proposal) -> list[JsonValue]:
    """From which group to which, the most frequent first."""
    before = state.groups.group
    moved = np.flatnonzero(proposal.group != before)
    pairs, place = np.unique(np.stack([before[moved], proposal.group[moved]]), axis=1, return_inverse=True)
    chance = state.checks.chances
    found: list[tuple[int, JsonValue]] = []
    for number, (old, new) in enumerate(pairs.T.tolist()):
        rows = moved[place.ravel() == number]
        rows = rows[np.argsort(chance[rows], kind="stable")]
        found.append((len(rows), {"from": old, "to": new, "count": len(rows), "rows": rows[:SHOWN].tolist()}))
    return [way for _, way in sorted(found, key=lambda one: -one[0])]
