"""Learning from corrections, in the background. It gives a proposal that the user accepts or discards."""

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from spice.web.background import Background
from spice.web.session import Session, StalePageError, State
from spice.web.tools import Proposal, Tools

SHOWN = 24  # images of each move from one group to another


class Learning:
    """At most one proposal at a time."""

    def __init__(self, session: Session, tools: Tools) -> None:
        self._session, self._learn = session, tools.learn
        self._work = Background[tuple[str, Proposal]]()  # the version that it learned from, and the proposal

    def start(self) -> JsonValue:
        """Start, unless it is already running."""
        version = self._session.state().version
        self._work.start(lambda progress: (version, self._learn(progress)))
        return self.describe()

    def cancel(self) -> JsonValue:
        """Stop, and discard the proposal."""
        self._work.cancel()
        return self.describe()

    def accept(self) -> State:
        """Apply the proposal."""
        found = self._current(self._session.state())
        if found is None:
            raise StalePageError("The groups have changed in the meantime; learn again.")
        found.accept()
        self._work.forget()
        return self._session.state()

    def describe(self) -> JsonValue:
        """The progress so far, and which images would move."""
        state = self._session.state()
        work, found = self._work.describe(), self._current(state)
        return {
            "placed": int(state.groups.by_person.sum()),
            "named": len(state.groups.names),
            "edits": len(state.edits.of_result(state.opened.result.name)),
            "moves": None if found is None else describe_moves(state, found.group),
            **work,
        }

    def _current(self, state: State) -> Proposal | None:
        """The proposal, if nothing has changed since."""
        found = self._work.found
        return found[1] if found is not None and found[0] == state.version else None


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
