"""What people decided about the groups of a run: `edits.json`, an append-only list of operations with undo and redo.

Nothing is ever removed from the list: an undo is an entry too. `append_locked`, `undo` and `redo` return only when the
entry is on the disk, so a process or a machine that dies loses no edit that was reported as done. A file lock makes
writers take turns. A writer that passes the revision it has seen gets an error if the list has changed since.

What the operations mean is in `spice.runs.apply_edits`; `spice.runs.editor` checks them before they are added.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from spice.errors import UserError
from spice.files import replace
from spice.runs.manifest import now
from spice.wording import counted

EDITS, LOCK = "edits.json", ".edits.lock"
FORMAT = 1
LOCK_SECONDS = 20.0  # how long to wait for another writer


class StaleEditsError(UserError):
    """Another program edited the run in the meantime: reread the edits and try again."""


class _Operation(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: str

    @property
    def words(self) -> str:
        """What was done; of an operation that this version does not know, its kind."""
        return self.kind


class ImageId(NamedTuple):
    """Identifies an image in any result of the run: by the hash of its content, or else by its path."""

    hash: str
    path: str


class Name(_Operation):
    """Name a group; an empty name removes its name."""

    kind: Literal["name"] = "name"
    group: int
    name: str

    @property
    def words(self) -> str:
        return f"name group {self.group} {self.name!r}" if self.name else f"remove the name of group {self.group}"


class Merge(_Operation):
    """Merge groups: the first keeps its number, and the first name found becomes the name."""

    kind: Literal["merge"] = "merge"
    groups: Annotated[list[int], Field(min_length=2)]

    @property
    def words(self) -> str:
        return f"merge groups {', '.join(map(str, self.groups))}"


class Split(_Operation):
    """Move images of a group into new groups, one for each of `parts`; the others stay."""

    kind: Literal["split"] = "split"
    group: int
    parts: Annotated[list[list[ImageId]], Field(min_length=1)]

    @property
    def words(self) -> str:
        return f"split group {self.group} into {len(self.parts) + 1}"


class SetAside(_Operation):
    """Ignore a group: its images are in no group until it is restored (`aside=False`)."""

    kind: Literal["set_aside"] = "set_aside"
    group: int
    aside: bool = True

    @property
    def words(self) -> str:
        return f"set group {self.group} aside" if self.aside else f"restore group {self.group}"


class Move(_Operation):
    """Move images to a group; None creates a new one."""

    kind: Literal["move"] = "move"
    images: Annotated[list[ImageId], Field(min_length=1)]
    group: int | None

    @property
    def words(self) -> str:
        target = "a new group" if self.group is None else f"group {self.group}"
        return f"move {counted(len(self.images), 'image')} to {target}"


class Reject(_Operation):
    """Images do not belong to this group: they move to the next best one."""

    kind: Literal["reject"] = "reject"
    images: Annotated[list[ImageId], Field(min_length=1)]
    group: int

    @property
    def words(self) -> str:
        return f"take {counted(len(self.images), 'image')} out of group {self.group}"


class Pair(_Operation):
    """Two images belong to the same group, or to different ones."""

    kind: Literal["same", "different"]
    first: ImageId
    second: ImageId

    @property
    def words(self) -> str:
        return f"{self.first.path} and {self.second.path}: {self.kind} group{'s' if self.kind == 'different' else ''}"


Answer = Literal["yes", "no", "unsure"]


class Check(_Operation):
    """A person's answer to "is this image in the right group?"; it changes no group. See `spice.runs.checks`."""

    kind: Literal["check"] = "check"
    image: ImageId
    group: int
    answer: Answer

    @property
    def words(self) -> str:
        return f"answer {self.answer!r} for {self.image.path}"


class Learned(_Operation):
    """Images that a head trained on the other edits moved, by group; a person accepted these moves."""

    kind: Literal["learned"] = "learned"
    model: str  # folder of the model that learned, relative to the run folder
    outputs: list[int]  # the group of each of its outputs
    moved: dict[int, list[ImageId]]

    @property
    def words(self) -> str:
        return f"move {counted(sum(map(len, self.moved.values())), 'image')} as learned"


class Undo(_Operation):
    """Undo the edit with this id."""

    kind: Literal["undo"] = "undo"
    edit: int


class Redo(_Operation):
    """Redo an undone edit."""

    kind: Literal["redo"] = "redo"
    edit: int


class Other(_Operation, extra="allow"):
    """An operation that this version does not know: kept unchanged, but not applied."""

    @field_validator("kind")
    @classmethod
    def _is_unknown(cls, kind: str) -> str:
        if kind in _KINDS:
            raise ValueError(f"not a valid {kind!r}")
        return kind


_Known = Name | Merge | Split | SetAside | Move | Reject | Pair | Check | Learned | Undo | Redo
_KINDS = frozenset(kind for known in get_args(_Known) for kind in get_args(known.model_fields["kind"].annotation))
Operation = Annotated[_Known, Field(discriminator="kind")] | Other


class Edit(BaseModel, frozen=True):
    """One entry of the list."""

    id: int  # 1, 2, 3, ...: its place in the list
    time: str
    result: str  # the result that was edited
    operation: Operation


class Edits(BaseModel, frozen=True):
    """All entries of `edits.json`, oldest first."""

    format: int = FORMAT
    edits: list[Edit] = []

    @property
    def revision(self) -> int:
        """The number of entries; it grows with every edit, undo and redo."""
        return len(self.edits)

    def active(self) -> list[Edit]:
        """The active edits, oldest first: without undone ones, and without undo and redo themselves."""
        return self._stacks()[0]

    def of_result(self, name: str) -> list[Edit]:
        """The active edits made on one result."""
        return [edit for edit in self.active() if edit.result == name]

    def until(self, revision: int) -> "Edits":
        """The list as it was at this revision."""
        return Edits(edits=self.edits[:revision])

    @property
    def undoable(self) -> Edit | None:
        """The edit that the next undo would revert."""
        done = self._stacks()[0]
        return done[-1] if done else None

    @property
    def redoable(self) -> Edit | None:
        """The edit that the next redo would restore; None after a new edit."""
        undone = self._stacks()[1]
        return undone[-1] if undone else None

    def _stacks(self) -> tuple[list[Edit], list[Edit]]:
        done: list[Edit] = []
        undone: list[Edit] = []
        for edit in self.edits:
            if isinstance(edit.operation, Undo):
                undone.append(done.pop())
            elif isinstance(edit.operation, Redo):
                done.append(undone.pop())
            else:
                done.append(edit)
                undone.clear()
        return done, undone


def read_edits(run: Path) -> Edits:
    """The edits of the run in `run`; an empty list if there are none."""
    path = run / EDITS
    try:
        content = json.loads(path.read_bytes())
        if isinstance(content, dict) and content.get("format", FORMAT) > FORMAT:
            raise UserError(f"{path} was made by a newer spice; update spice to read it")
        found = Edits.model_validate(content)
        found.active()
    except (FileNotFoundError, NotADirectoryError):
        return Edits()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except (ValidationError, ValueError, IndexError, TypeError) as error:
        raise UserError(f"{path} is damaged ({str(error).splitlines()[0]}); restore it from a backup") from None
    return found


@contextmanager
def editing(run: Path, *, expected: int | None = None) -> Iterator[Edits]:
    """Lock the list and yield it; no other program can change it before the block ends.

    Args:
        expected: the revision that the caller has seen. StaleEditsError if there are other edits by now.
    """
    lock = FileLock(run / LOCK, timeout=LOCK_SECONDS)
    try:
        lock.acquire()
    except Timeout:
        raise UserError(f"another program is writing to {run / EDITS}; try again in a moment") from None
    try:
        found = read_edits(run)
        if expected is not None and expected != found.revision:
            raise StaleEditsError(
                f"{run} was edited elsewhere in the meantime (revision {found.revision}, expected {expected}); "
                "reload the groups"
            )
        yield found
    finally:
        lock.release()


def undo(run: Path, *, expected: int | None = None) -> Edit | None:
    """Undo the last active edit and return it; None if there is nothing to undo."""
    with editing(run, expected=expected) as found:
        last = found.undoable
        if last is not None:
            append_locked(run, found, Undo(edit=last.id), result=last.result)
        return last


def redo(run: Path, *, expected: int | None = None) -> Edit | None:
    """Redo the last undone edit and return it; None if there is nothing to redo."""
    with editing(run, expected=expected) as found:
        last = found.redoable
        if last is not None:
            append_locked(run, found, Redo(edit=last.id), result=last.result)
        return last


def append_locked(run: Path, edits: Edits, operation: Operation, *, result: str) -> Edits:
    """Add an entry inside a block of `editing`, which yielded `edits`; returns the list with it."""
    entry = Edit(id=edits.revision + 1, time=now(), result=result, operation=operation)
    longer = Edits(edits=[*edits.edits, entry])
    _write(run, longer)
    return longer


def _write(run: Path, edits: Edits) -> None:
    """Write one entry per line. The new file replaces the old one atomically, so one of them is always on disk."""
    lines = ",\n".join(edit.model_dump_json() for edit in edits.edits)
    # Not `.partial`: a run that starts at the same time removes those. The lock makes sure that there is one writer.
    temporary = run / f".{EDITS}.new"
    with temporary.open("wb") as file:
        file.write(f'{{"format":{edits.format},"edits":[\n{lines}\n]}}\n'.encode())
        file.flush()
        os.fsync(file.fileno())
    replace(temporary, run / EDITS)
    if os.name == "posix":  # the new name is safe only when the folder is
        folder = os.open(run, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
