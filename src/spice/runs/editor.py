"""Edits a run: every operation is checked against the current groups, then written; readers see it at once.

>>> editor = Editor(Path("photos.spice"))
>>> editor.do(Name(group=3, name="mountains"))
>>> editor.do(Move(images=editor.base.images([17, 4]), group=3))
>>> editor.undo()
>>> editor.groups.names
"""

from pathlib import Path

from spice.errors import UserError
from spice.runs.edits import (
    Check,
    Edit,
    Edits,
    ImageId,
    Learned,
    Merge,
    Move,
    Name,
    Operation,
    Pair,
    Redo,
    Reject,
    SetAside,
    Split,
    Undo,
    append_locked,
    editing,
    read_edits,
    redo,
    undo,
)
from spice.runs.groups import Base, Groups
from spice.runs.result import Result, open_result

LONGEST_NAME = 200


class Editor:
    """The current result of a run and its edits. Sees edits that other programs make in the meantime."""

    def __init__(self, run: Path, result: Result | None = None) -> None:
        self.run = run
        self.result = result or open_result(run)
        self.base: Base = self.result.base
        self._seen: tuple[int, Groups] | None = None  # by revision

    @property
    def edits(self) -> Edits:
        """The edits on the disk now."""
        return read_edits(self.run)

    @property
    def groups(self) -> Groups:
        """The current groups, including edits of other programs."""
        return self._groups(self.edits)

    def do(self, operation: Operation, *, expected: int | None = None) -> Groups:
        """Add an operation and return the groups after it; UserError if it cannot be done.

        Args:
            expected: the `edits.revision` that the caller has seen; StaleEditsError if others have edited since.
        """
        with editing(self.run, expected=expected) as edits:
            refuse_impossible(operation, self._groups(edits), self.base)
            return self._groups(append_locked(self.run, edits, operation, result=self.base.name))

    def undo(self, *, expected: int | None = None) -> Edit | None:
        """Undo the last edit and return it; None if there is nothing to undo."""
        return undo(self.run, expected=expected)

    def redo(self, *, expected: int | None = None) -> Edit | None:
        """Redo the last undone edit and return it; None if there is nothing to redo."""
        return redo(self.run, expected=expected)

    def _groups(self, edits: Edits) -> Groups:
        if self._seen is None or self._seen[0] != edits.revision:
            self._seen = edits.revision, self.result.groups_after(edits)
        return self._seen[1]


def refuse_impossible(operation: Operation, groups: Groups, base: Base) -> None:
    """Raise UserError if the operation names an unknown group or image, or would change nothing."""
    if isinstance(operation, Undo | Redo):
        raise ValueError("to undo or redo, call undo() or redo()")
    _refuse_unknown(groups, *_numbers(operation))
    match operation:
        case Name():
            _refuse_bad_name(groups, operation)
        case Merge() if len(set(operation.groups)) < len(operation.groups):
            raise UserError(f"a group cannot be merged with itself: {_listed(operation.groups)}")
        case Split():
            _refuse_bad_split(operation, groups, base)
        case Move() | Reject():
            _refuse_missing(base, operation.images)
        case Check():
            _refuse_missing(base, [operation.image])
        case Pair():
            _refuse_missing(base, [operation.first, operation.second])
            if operation.first.hash == operation.second.hash:
                raise UserError(f"{operation.first.path} and {operation.second.path} are the same image")


def _numbers(operation: Operation) -> list[int]:
    """The groups that an operation names."""
    match operation:
        case Name() | Split() | SetAside() | Reject() | Check():
            return [operation.group]
        case Move():
            return [] if operation.group is None else [operation.group]
        case Merge():
            return operation.groups
        case Learned():
            return list(operation.moved)
    return []


def _refuse_unknown(groups: Groups, *numbers: int) -> None:
    for number in numbers:
        if number not in groups.existing:
            raise UserError(f"there is no group {number}; the groups are {_listed(groups.existing)}")


def _refuse_bad_name(groups: Groups, operation: Name) -> None:
    name = operation.name
    if name != name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
        raise UserError(
            f"invalid name {name!r}; use 1 to {LONGEST_NAME} printable characters without spaces around them"
        )
    taken = next((group for group, other in groups.names.items() if other == name and group != operation.group), None)
    if taken is not None:
        raise UserError(
            f"group {taken} is already called {name!r}; merge the two (spice merge RUN {taken} {operation.group}) "
            "or choose another name"
        )


def _refuse_bad_split(operation: Split, groups: Groups, base: Base) -> None:
    members = set((groups.group == operation.group).nonzero()[0].tolist())
    leaving: set[int] = set()
    for part in operation.parts:
        rows = set(base.rows(part).tolist()) & members
        if not rows or rows & leaving:
            raise UserError(f"every part of group {operation.group} needs at least one image")
        leaving |= rows
    if leaving == members:
        raise UserError(f"a split of group {operation.group} must leave images in it")


def _refuse_missing(base: Base, images: list[ImageId]) -> None:
    for image in images:
        if len(base.rows([image])) == 0:
            raise UserError(f"{image.path} is not an image of this result (see labels.csv)")


def _listed(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:12]))
    return shown + (f", ... {numbers[-1]}" if len(numbers) > 12 else "")
