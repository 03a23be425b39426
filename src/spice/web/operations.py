"""The edits that the page sends, converted to operations of `edits.json`.

The page names images by row, `edits.json` by content.
"""

from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from spice.errors import UserError
from spice.runs.edits import Answer, Check, ImageId, Merge, Move, Name, Operation, Pair, Reject, SetAside, Split
from spice.web.session import State

Rows = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]


class _PageEdit(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PageNames(_PageEdit):
    """Name several groups, to accept all suggested names at once."""

    kind: Literal["names"]
    names: Annotated[dict[int, str], Field(min_length=1)]

    def operations(self, state: State) -> list[Operation]:
        del state
        return [Name(group=number, name=name) for number, name in self.names.items()]


class PageSplit(_PageEdit):
    """Move some images of a group to new groups."""

    kind: Literal["split"]
    group: int
    parts: Annotated[list[Rows], Field(min_length=1)]

    def operations(self, state: State) -> list[Operation]:
        return [Split(group=self.group, parts=[_images(state, rows) for rows in self.parts])]


class PageMove(_PageEdit):
    """Move images to a group; None creates a new one."""

    kind: Literal["move"]
    rows: Rows
    group: int | None

    def operations(self, state: State) -> list[Operation]:
        return [Move(images=_images(state, self.rows), group=self.group)]


class PageReject(_PageEdit):
    """Take images out of the groups that they are in."""

    kind: Literal["reject"]
    rows: Rows

    def operations(self, state: State) -> list[Operation]:
        _images(state, self.rows)
        rows = np.array(self.rows)
        inside = state.groups.group[rows]
        numbers = [int(number) for number in np.unique(inside) if number >= 0]
        if not numbers:
            raise UserError("these images are in no group")
        return [Reject(images=_images(state, rows[inside == number].tolist()), group=number) for number in numbers]


class PagePair(_PageEdit):
    """State that two images belong to the same group, or to different ones."""

    kind: Literal["same", "different"]
    rows: Annotated[Rows, Field(min_length=2, max_length=2)]

    def operations(self, state: State) -> list[Operation]:
        first, second = _images(state, self.rows)
        return [Pair(kind=self.kind, first=first, second=second)]


class PageCheck(_PageEdit):
    """An answer: is the image in the right group?"""

    kind: Literal["check"]
    row: Annotated[int, Field(ge=0)]
    answer: Answer

    def operations(self, state: State) -> list[Operation]:
        (image,) = _images(state, [self.row])
        return [Check(image=image, group=int(state.groups.shown[self.row]), answer=self.answer)]


# The page sends these as the operations themselves.
_WithoutImages = Name | Merge | SetAside
PageEdit = Annotated[
    _WithoutImages | PageCheck | PageNames | PageSplit | PageMove | PageReject | PagePair, Field(discriminator="kind")
]


def operations_of(edit: PageEdit, state: State) -> list[Operation]:
    """The operations to add; UserError for rows that the run does not have."""
    return [edit] if isinstance(edit, _WithoutImages) else edit.operations(state)


def _images(state: State, rows: list[int]) -> list[ImageId]:
    if max(rows) >= len(state.opened.labels.path):
        raise UserError(f"there is no image number {max(rows)}; the run has {len(state.opened.labels.path):,}")
    return state.opened.editor.base.images(rows)
