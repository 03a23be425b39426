"""Learning from corrections while the page stays usable: started, watched, canceled, then accepted or not."""

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from spice.progress import Progress
from spice.web.background import Background
from spice.web.session import Session, StalePageError, State
from spice.web.tools import Proposal, Tools

# Images shown of each move from one group to another.
SHOWN = 24


class Learning:
    """At most one proposal at a time."""

    def __init__(self, session: Session, tools: Tools) -> None:
        self._session, self._learn = session, tools.learn
        self._work = Background()
        self._found: tuple[str, Proposal] | None = None  # the version that it learned from

    def start(self) -> JsonValue:
        """Start, unless it is already running."""
        version = self._session.state().version

        def learn(progress: Progress) -> None:
            self._found = version, self._learn(progress)

        if not self._work.running:
            self._found = None
        self._work.start(learn)
        return self.describe()

    def cancel(self) -> JsonValue:
        """Stop, and discard the proposal."""
        self._work.cancel()
        self._found = None
        return self.describe()

    def accept(self) -> State:
        """Apply the proposal."""
        state = self._session.state()
        if self._found is None or self._found[0] != state.version:
            raise StalePageError("The groups have changed in the meantime; learn again.")
        self._found[1].accept()
        self._found = None
        return self._session.state()

    def describe(self) -> JsonValue:
        """The progress so far, and what would move."""
        state = self._session.state()
        work = self._work.describe()
        found = self._found if self._found is not None and self._found[0] == state.version else None
        return {
            "placed": int(state.groups.by_person.sum()),
            "named": len(state.groups.names),
            "edits": len(state.edits.of_result(state.opened.result.name)),
            "ways": None if found is None or self._work.running else describe_moves(state, found[1].group),
            **work,
        }


def describe_moves(state: State, after: NDArray[np.int32]) -> list[JsonValue]:
    """How images would move between groups if these were their groups, the most frequent move first."""
    before = state.groups.group
    moved = np.flatnonzero(after != before)
    pairs, place = np.unique(np.stack([before[moved], after[moved]]), axis=1, return_inverse=True)
    chance = state.checks.chances
    found: list[tuple[int, JsonValue]] = []
    for number, (old, new) in enumerate(pairs.T.tolist()):
        rows = moved[place.ravel() == number]
        rows = rows[np.argsort(chance[rows], kind="stable")]
        found.append((len(rows), {"from": old, "to": new, "count": len(rows), "rows": rows[:SHOWN].tolist()}))
    return [move for _, move in sorted(found, key=lambda one: -one[0])]
