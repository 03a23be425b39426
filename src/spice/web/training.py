"""Training that runs in the background and makes another result of the run.

A result with another number of groups is shown as soon as it is complete. A result of joint training is a proposal: it
is used once the user accepts it.
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
    """At most one training at a time, and the proposal of the last joint training."""

    def __init__(self, session: Session, tools: Tools) -> None:
        self._session, self._tools = session, tools
        # Names of the result that joint training started from, and of the one that it made.
        self._work = Background[tuple[str, str]]()

    def start(self, groups: int | None, *, cut: bool) -> JsonValue:
        """Train another number of groups, or with None: joint training on the current groups.

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
        """Stop, or discard the proposal. A result that is complete remains among the run's results."""
        self._work.cancel()
        return self.describe()

    def accept(self) -> State:
        """Use the result of joint training."""
        found = self._work.found
        if found is None:
            raise UserError("There is no result to accept; start joint training first.")
        use_result(self._session.run, found[1])
        self._work.forget()
        return self._session.state()

    def describe(self) -> JsonValue:
        """The progress so far, and the proposal."""
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
        "moves": describe_moves(state, made.groups.group),
    }
