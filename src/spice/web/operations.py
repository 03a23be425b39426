"""From what the page asks for, images by row, to operations of `edits.json`, images by content."""

from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from spice.errors import UserError
from spice.runs.edits import Check, ImageId, Merge, Move, Name, Operation, Pair, Reject, SetAside, Split
from spice.web.session import State

Rows = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]


class _Asked(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AskedName(_Asked):
    """Name a group."""

    kind: Literal["name"]
    group: int
    name: str

    def operations(self, state: State) -> list[Operation]:
        del state
        return [Name(group=self.group, name=" ".join(self.name.split()))]


class AskedNames(_Asked):
    """Name several groups: suggested names that were accepted together."""

    kind: Literal["names"]
    names: Annotated[dict[int, str], Field(min_length=1)]

    def operations(self, state: State) -> list[Operation]:
        del state
        return [Name(group=number, name=" ".join(name.split())) for number, name in self.names.items()]


class AskedMerge(_Asked):
    """Merge several groups into one."""

    kind: Literal["merge"]
    groups: Annotated[list[int], Field(min_length=2)]

    def operations(self, state: State) -> list[Operation]:
        del state
        return [Merge(groups=self.groups)]


class AskedSplit(_Asked):
    """Move some images of a group to new groups."""

    kind: Literal["split"]
    group: int
    parts: Annotated[list[Rows], Field(min_length=1)]

    def operations(self, state: State) -> list[Operation]:
        return [Split(group=self.group, parts=[_images(state, rows) for rows in self.parts])]


class AskedAside(_Asked):
    """Not a group, or a group again."""

    kind: Literal["set_aside"]
    group: int
    aside: bool

    def operations(self, state: State) -> list[Operation]:
        del state
        return [SetAside(group=self.group, aside=self.aside)]


class AskedMove(_Asked):
    """Images into a group; None: into a new one."""

    kind: Literal["move"]
    rows: Rows
    group: int | None

    def operations(self, state: State) -> list[Operation]:
        return [Move(images=_images(state, self.rows), group=self.group)]


class AskedReject(_Asked):
    """Images out of the groups that they are in."""

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


class AskedPair(_Asked):
    """Two images: together or apart."""

    kind: Literal["same", "different"]
    rows: Annotated[Rows, Field(min_length=2, max_length=2)]

    def operations(self, state: State) -> list[Operation]:
        first, second = _images(state, self.rows)
        return [Pair(kind=self.kind, first=first, second=second)]


class AskedCheck(_Asked):
    """An answer: is the image in the right group?"""

    kind: Literal["check"]
    row: Annotated[int, Field(ge=0)]
    answer: Literal["yes", "no", "unsure"]

    def operations(self, state: State) -> list[Operation]:
        (image,) = _images(state, [self.row])
        return [Check(image=image, group=int(state.groups.shown[self.row]), answer=self.answer)]


Asked = Annotated[
    AskedCheck | AskedName | AskedNames | AskedMerge | AskedSplit | AskedAside | AskedMove | AskedReject | AskedPair,
    Field(discriminator="kind"),
]


def _images(state: State, rows: list[int]) -> list[ImageId]:
    if max(rows) >= len(state.opened.labels.path):
        raise UserError(f"there is no image number {max(rows)}; the run has {len(state.opened.labels.path):,}")
    return state.opened.images(rows)
