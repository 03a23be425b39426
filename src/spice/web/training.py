"""Trainings that make another result while the page stays usable.

Another number of groups is shown as soon as it is there. What joint training makes of the groups is shown first, and
used when the user accepts it.
"""

from pydantic import JsonValue

from spice.errors import UserError
from spice.progress import Progress
from spice.report.curves import check_rows
from spice.runs import Result, read_manifest
from spice.web.background import Background
from spice.web.learning import describe_moves
from spice.web.results import use_result
from spice.web.session import Session, State
from spice.web.tools import Tools


class Training:
    """At most one training at a time, and what the last joint training found."""

    def __init__(self, session: Session, tools: Tools) -> None:
        self._session, self._tools = session, tools
        # Of joint training: the result that it began with, and the one that it made.
        self._work = Background[tuple[str, str]]()

    def start(self, groups: int | None, *, cut: bool) -> JsonValue:
        """Make another number of groups, or None: train encoder and head together on the groups as they are.

        Args:
            cut: start from a cut of the merge tree.
        """
        before = self._session.state().opened.result.name

        def work(progress: Progress) -> tuple[str, str] | None:
            if groups is None:
                return before, self._tools.refine(progress)
            self._tools.regroup(groups, cut, progress)
            return None

        if not self._work.start(work):
            raise UserError("Training is in progress; cancel it first.")
        return self.describe()

    def cancel(self) -> JsonValue:
        """Stop, or leave the groups as they are. A result that is complete stays among the run's results."""
        self._work.cancel()
        return self.describe()

    def accept(self) -> State:
        """Use what joint training made."""
        found = self._work.found
        if found is None:
            raise UserError("There is no result to accept; start joint training first.")
        use_result(self._session.run, found[1])
        self._work.forget()
        return self._session.state()

    def describe(self) -> JsonValue:
        """The progress so far, and what joint training would change."""
        state, work, found = self._session.state(), self._work.describe(), self._work.found
        current = found is not None and found[0] == state.opened.result.name
        return {**work, "proposal": _proposal(state, found[1]) if found is not None and current else None}


def _proposal(state: State, name: str) -> JsonValue:
    manifest = read_manifest(state.opened.result.run)
    made = Result(state.opened.result.run, manifest, name)
    joint = made.joint
    if joint is None:
        return None
    return {
        "used": joint.used,
        "failed": [*joint.failed_checks],
        "learned": joint.labeled,
        "placed": joint.given,
        "checks": [row._asdict() for row in check_rows(joint)],
        "ways": describe_moves(state, made.groups.group),
    }
