"""Apply labels from the user as edits: name the group with most images of a label, and move the other images there.

These are labels to learn from. True labels, for scoring, are read by `evaluate` alone.

Shapes: L labeled images, C names, G groups, n images of a group, D feature width.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spice.errors import UserError
from spice.label_table import plain_path
from spice.runs.editor import Editor, refuse_impossible
from spice.runs.edits import Edit, Edits, Move, Name, Operation, Split
from spice.runs.groups import Groups
from spice.trust.vectors import unit_length


class SharedGroupError(UserError):
    """One group holds the images of two names."""

    def __init__(self, first: str, second: str, group: str) -> None:
        super().__init__(
            f"the images labeled {first!r} and {second!r} are both in {group}: split it by these labels "
            "(spice refine or learn RUN --labels FILE --split), use more groups (-k), or leave out one of the names"
        )


class LabelsByRow(NamedTuple):
    """Labels by row of the collection."""

    row: NDArray[np.int64]  # (L,)
    name: NDArray[np.int64]  # (L,) indices into `names`
    names: list[str]  # (C,)

    def rows_of(self, name: int) -> NDArray[np.int64]:
        """The rows with this name."""
        rows: NDArray[np.int64] = self.row[self.name == name]
        return rows


class _Owner(NamedTuple):
    """A group and the name that owns it."""

    name: int
    group: int


def apply_labels(editor: Editor, labels: Mapping[str, str], *, split: bool = False) -> list[Operation]:
    """Move every labeled image (path: name) to the group of that name, unless it is already there.

    If any label is refused, nothing changes. Returns the operations that were added to the edits.

    Args:
        split: split a group that holds two names. Each image goes to the name with the most similar labeled images.
            Without `split`, such a group is a SharedGroupError.
    """
    table, groups = labels_by_row(labels, editor.base.paths), editor.groups
    target = _match(table, groups)
    added: list[Operation] = []
    _refuse_bad_names(editor, table, target)
    for name in [name for name, group in target.items() if group is None]:
        rows = table.rows_of(name)
        owner = _owner(groups, rows, target)
        if owner is None:  # its images are in no group, or in groups that were set aside
            added.append(Move(images=editor.base.images(rows.tolist()), group=None))
        elif split:
            added.append(_split(editor, groups, table, owner, name))
        else:
            raise SharedGroupError(table.names[name], table.names[owner.name], groups.name(owner.group))
        groups = _groups_after(editor, added)
        target[name] = max(groups.existing)
    # Nothing has been refused: now the edits.
    for operation in added:
        editor.do(operation)
    for name, group in target.items():
        assert group is not None
        added += _name_and_fill(editor, table.rows_of(name), table.names[name], group)
    return added


def placed_clusters(editor: Editor) -> dict[str, int]:
    """The largest cluster in the group of each image that a person placed, by path.

    Images in a group without a cluster, such as one that was split off, are left out: `spice learn` learns these.
    """
    groups, base = editor.groups, editor.base
    found: dict[str, int] = {}
    for group in np.unique(groups.group[groups.by_person]).tolist():
        clusters = np.flatnonzero(groups.of_cluster == group)
        if group < 0 or group in groups.set_aside or len(clusters) == 0:
            continue
        members = base.cluster[groups.group == group]
        largest = int(clusters[np.argmax([(members == cluster).sum() for cluster in clusters])])
        placed = np.flatnonzero(groups.by_person & (groups.group == group))
        found |= dict.fromkeys((base.paths[row] for row in placed.tolist()), largest)
    return found


def labels_by_row(labels: Mapping[str, str], paths: Sequence[str]) -> LabelsByRow:
    """The labels (path: name) by row. UserError if a path is not in the collection."""
    wanted = {plain_path(path): " ".join(name.split()) for path, name in labels.items()}
    labeled = [(row, wanted.pop(plain)) for row, plain in enumerate(map(plain_path, paths)) if plain in wanted]
    if wanted:
        more = f" and {len(wanted) - 1} more" if len(wanted) > 1 else ""
        raise UserError(
            f"there is a label for {next(iter(wanted))}{more}, but no such image; paths look like this: {paths[0]}"
        )
    names = sorted({name for _, name in labeled})
    place = {name: number for number, name in enumerate(names)}
    rows = np.array([row for row, _ in labeled], dtype=np.int64)
    return LabelsByRow(rows, np.array([place[name] for _, name in labeled], dtype=np.int64), names)


def _match(table: LabelsByRow, groups: Groups) -> dict[int, int | None]:
    """The group of every name, one to one: the group with that name, or the one with most of its images.

    None if all images of a name are in groups of other names.
    """
    from scipy.optimize import linear_sum_assignment  # late: slow to import

    free = groups.active
    named = {groups.names[group]: group for group in free if group in groups.names}
    counts = np.array(
        [[(groups.group[table.rows_of(name)] == group).sum() for group in free] for name in range(len(table.names))]
    ).reshape(len(table.names), len(free))  # (C, G)
    score = counts * (len(free) + 1) + (counts > 0)  # of equally good matchings, prefer one that gives names a group
    certain = score.sum() + 1  # more than all images: a group keeps its name
    for name, text in enumerate(table.names):
        if text in named:
            score[name, free.index(named[text])] = certain
    found: dict[int, int | None] = dict.fromkeys(range(len(table.names)))
    for name, place in zip(*linear_sum_assignment(score, maximize=True), strict=True):
        if score[name, place]:
            found[int(name)] = free[place]
    return found


def _refuse_bad_names(editor: Editor, table: LabelsByRow, target: Mapping[int, int | None]) -> None:
    """Refuse names that no group can have, and names of groups that were set aside."""
    groups = editor.groups
    aside = {groups.names[group]: group for group in groups.set_aside if group in groups.names}
    for name, group in target.items():
        text = table.names[name]
        if text in aside:
            raise UserError(
                f"group {aside[text]} is called {text!r} but was set aside; bring it back "
                f"(spice set-aside RUN {aside[text]} --back) or use another label"
            )
        refuse_impossible(Name(group=groups.existing[0] if group is None else group, name=text), groups, editor.base)


def _owner(groups: Groups, rows: NDArray[np.int64], target: Mapping[int, int | None]) -> _Owner | None:
    """The group of another name that holds most of these images."""
    taken = {group: name for name, group in target.items() if group is not None}
    counts = {group: int((groups.group[rows] == group).sum()) for group in taken}
    best = max(counts, key=counts.__getitem__, default=None)
    return None if best is None or not counts[best] else _Owner(taken[best], best)


def _groups_after(editor: Editor, operations: Sequence[Operation]) -> Groups:
    """The groups as these operations would leave them; nothing is written."""
    done, name = editor.edits, editor.base.name
    further = [
        Edit(id=done.revision + number, time="", result=name, operation=operation)
        for number, operation in enumerate(operations, start=1)
    ]
    return editor.result.groups_after(Edits(edits=[*done.edits, *further]))


def _split(editor: Editor, groups: Groups, table: LabelsByRow, owner: _Owner, name: int) -> Split:
    """Split off the images of the owner's group that resemble the labeled images of `name` more than the owner's."""
    first, second = table.rows_of(owner.name), table.rows_of(name)
    members = np.flatnonzero(groups.group == owner.group)
    features = editor.result.answer_features
    centers = [unit_length(features[rows]).mean(axis=0) for rows in (first, second)]
    similarity = unit_length(features[members]) @ np.stack(centers, axis=1)  # (n, 2)
    leaving = members[(similarity[:, 1] > similarity[:, 0]) & ~np.isin(members, first)]
    leaving = np.union1d(leaving, members[np.isin(members, second)])
    if len(leaving) == len(members):
        raise UserError(
            f"cannot split {groups.name(owner.group)}: all its images resemble those labeled {table.names[name]!r} "
            f"more than those labeled {table.names[owner.name]!r}; rename the group (spice name) or change the labels"
        )
    return Split(group=owner.group, parts=[editor.base.images(leaving.tolist())])


def _name_and_fill(editor: Editor, rows: NDArray[np.int64], name: str, group: int) -> list[Operation]:
    """Name the group and move the images to it, unless they are already there."""
    groups = editor.groups
    operations: list[Operation] = []
    if groups.names.get(group) != name:
        operations.append(Name(group=group, name=name))
    moving = rows[(groups.group[rows] != group) | ~groups.by_person[rows]]
    if len(moving):
        operations.append(Move(images=editor.base.images(moving.tolist()), group=group))
    for operation in operations:
        editor.do(operation)
    return operations
