"""Applies edits to the head's answer, for labels.csv, the report, the explorer, exports, `predict` and `why` alike.

Shapes: N images, K clusters.
"""

from collections.abc import Callable

import numpy as np

from spice.runs.edits import Edits, Learned, Merge, Move, Name, Operation, Pair, Reject, SetAside, Split
from spice.runs.groups import NONE, Base, Groups, unedited
from spice.runs.transfer_edits import transfer_edits

Find = Callable[[str], Base | None]


def apply_edits(base: Base, edits: Edits, *, earlier: Find = lambda _name: None) -> Groups:
    """The groups of a result after all edits.

    Edits of this result are applied in order. Earlier edits of another result of the run (fewer images, another K) are
    carried over first, by shared images: see `spice.runs.transfer_edits`.

    Args:
        earlier: finds another result by its name; None if it no longer exists, so that nothing is carried over.
    """
    first = next((place for place, edit in enumerate(edits.edits) if edit.result == base.name), edits.revision)
    before = edits.until(first)
    inherited = [edit for edit in before.active() if changes_groups(edit.operation)]
    source = earlier(inherited[-1].result) if inherited else None
    start = unedited(base)
    if source is not None:
        start = transfer_edits(source, apply_edits(source, before, earlier=earlier), base)
    state = _State(base, start)
    for edit in edits.of_result(base.name):
        state.do_(edit.operation)
    return state.groups()


def changes_groups(operation: Operation) -> bool:
    """Whether the operation changes groups; answers to a check do not."""
    return isinstance(operation, Name | Merge | Split | SetAside | Move | Reject | Pair | Learned)


class _State:
    """The groups while edits are applied to them."""

    def __init__(self, base: Base, groups: Groups) -> None:
        self.base = base
        self.free = max([*groups.existing, base.clusters - 1]) + 1  # the next number for a new group
        self.group, self.by_person, self.of_cluster = groups.group, groups.by_person, groups.of_cluster
        self.names, self.existing, self.aside = dict(groups.names), set(groups.existing), set(groups.set_aside)
        self.rejected, self.touched = dict(groups.rejected), set(groups.touched)
        self.model, self.of_output = groups.model, groups.of_output

    def groups(self) -> Groups:
        return Groups(
            group=self.group,
            by_person=self.by_person,
            names={group: self.names[group] for group in sorted(self.names)},
            existing=sorted(self.existing),
            set_aside=frozenset(self.aside),
            of_cluster=self.of_cluster,
            rejected=self.rejected,
            touched=frozenset(self.touched),
            model=self.model,
            of_output=self.of_output,
        )

    def do_(self, operation: Operation) -> None:
        """Apply one operation; one that changes no group is skipped."""
        match operation:
            case Name():
                self._name_(operation)
            case Merge():
                self._merge_(operation)
            case Split():
                self._split_(operation)
            case SetAside():
                self._set_aside_(operation)
            case Move():
                self._move_(operation)
            case Reject():
                self._reject_all_(operation)
            case Pair():
                self._pair_(operation)
            case Learned():
                self._learned_(operation)

    def _name_(self, operation: Name) -> None:
        self.touched.add(operation.group)
        if operation.name:
            self.names[operation.group] = operation.name
        else:
            self.names.pop(operation.group, None)

    def _merge_(self, operation: Merge) -> None:
        kept, *others = operation.groups
        names = [self.names[group] for group in operation.groups if group in self.names]
        for other in others:
            self.group[self.group == other] = kept
            self.of_cluster[self.of_cluster == other] = kept
            if self.of_output is not None:
                self.of_output[self.of_output == other] = kept
            self.names.pop(other, None)
            self.existing.discard(other)
        self.aside.difference_update(operation.groups)
        self.touched.difference_update(others)
        self.touched.add(kept)
        if names:
            self.names[kept] = names[0]

    def _split_(self, operation: Split) -> None:
        for part in operation.parts:
            rows = self.base.rows(part)
            self.group[rows[self.group[rows] == operation.group]] = self._new_()
        self.touched.add(operation.group)

    def _set_aside_(self, operation: SetAside) -> None:
        change = self.aside.add if operation.aside else self.aside.discard
        change(operation.group)
        self.touched.add(operation.group)

    def _move_(self, operation: Move) -> None:
        rows = self.base.rows(operation.images)
        group = self._new_() if operation.group is None else operation.group
        self.group[rows] = group
        self.by_person[rows] = True
        self.touched.add(group)
        for row in set(rows.tolist()) & set(self.rejected):  # the newest decision counts
            self.rejected[row] -= {group}

    def _reject_all_(self, operation: Reject) -> None:
        for row in self.base.rows(operation.images).tolist():
            self._reject_(row, operation.group)

    def _reject_(self, row: int, group: int) -> None:
        """Move the image to the next best group that no person has ruled out."""
        self.rejected[row] = self.rejected.get(row, frozenset()) | {group}
        if self.group[row] != group:
            return
        likely = self.base.next_cluster[row], self.base.cluster[row]
        choices = [int(self.of_cluster[cluster]) for cluster in likely]
        ruled_out = self.rejected[row] | self.aside
        self.group[row] = next((choice for choice in choices if choice not in ruled_out), NONE)
        self.by_person[row] = False  # the person said only where it does not belong

    def _pair_(self, operation: Pair) -> None:
        """Move the less certain image: one that a person placed stays, otherwise the more reliable one."""
        firsts, seconds = self.base.rows([operation.first]), self.base.rows([operation.second])
        if len(firsts) == 0 or len(seconds) == 0:
            return
        certain = self.by_person.astype(np.float32) * 2 + self.base.reliability
        stays, moves = (firsts, seconds) if certain[firsts[0]] >= certain[seconds[0]] else (seconds, firsts)
        group = int(self.group[stays[0]])
        if operation.kind == "same":
            self.group[moves[~self.by_person[moves]]] = group
        elif not self.by_person[moves[0]]:
            for row in moves[self.group[moves] == group].tolist():
                self._reject_(row, group)

    def _learned_(self, operation: Learned) -> None:
        self.model, self.of_output = operation.model, np.array(operation.outputs, dtype=np.int32)
        for group, images in operation.moved.items():
            rows = self.base.rows(images)
            self.group[rows[~self.by_person[rows]]] = group

    def _new_(self) -> int:
        group = self.free
        self.free += 1
        self.existing.add(group)
        self.touched.add(group)
        return group
