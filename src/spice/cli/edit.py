"""Show and correct groups: `spice groups`, `name`, `merge`, `split`, `move`, `set-aside`, `undo` and `redo`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spice.cli.help import examples
from spice.cli.options import Json, RunArgument
from spice.cli.running import confirmed, editing
from spice.errors import UserError
from spice.wording import counted, quoted

if TYPE_CHECKING:
    from spice.runs import Groups
    from spice.runs.editor import Editor
    from spice.runs.edits import Operation

GROUPS_EXAMPLES = examples("spice groups photos.spice  # numbers, names and sizes")
NAME_EXAMPLES = examples(
    "spice name photos.spice 3 mountains",
    'spice name photos.spice mountains "high mountains"  # rename it',
    'spice name photos.spice 3 ""  # remove the name',
    "spice name photos.spice --suggest  # names for unnamed groups",
)
MERGE_EXAMPLES = examples(
    "spice merge photos.spice 3 5  # put group 5 into group 3", "spice merge photos.spice cats 5 7"
)
SPLIT_EXAMPLES = examples("spice split photos.spice 3  # into two", "spice split photos.spice 3 --into 4")
MOVE_EXAMPLES = examples(
    "spice move photos.spice mountains summer/peak.jpg IMG_0042.jpg",
    "spice move photos.spice new IMG_0042.jpg IMG_0043.jpg  # into a new group",
    "spice move photos.spice none IMG_0042.jpg  # into its next best group",
)
ASIDE_EXAMPLES = examples(
    "spice set-aside photos.spice 4  # ignore this group; it is not exported",
    "spice set-aside photos.spice 4 --back  # restore it",
)
UNDO_EXAMPLES = examples("spice undo photos.spice  # repeat to go further back")
REDO_EXAMPLES = examples("spice redo photos.spice")

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="Group number or name.", show_default=False)]


def show_groups(run: RunArgument, as_json: Json = False) -> None:
    """List the groups with their names and sizes, after your edits."""
    from spice.runs import open_result
    from spice.runs.suggested_names import read_words, suggest_names

    result = open_result(run)
    groups = result.groups
    suggested = suggest_names(read_words(result), groups)
    rows = [
        {
            "group": number,
            "name": groups.names.get(number, ""),
            "suggested": suggested.get(number, ""),
            "images": int((groups.group == number).sum()),
            "by_person": int(groups.by_person[groups.group == number].sum()),
            "set_aside": number in groups.set_aside,
        }
        for number in groups.existing
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'group':>5}{'images':>9}{'by you':>8}  name")
    for row in rows:
        mark = "  (set aside)" if row["set_aside"] else ""
        title = row["name"] or (f"{row['suggested']}?" if row["suggested"] else "")
        print(f"{row['group']:>5}{row['images']:>9,}{row['by_person']:>8,}  {title}{mark}".rstrip())
    ungrouped = int((groups.group < 0).sum())
    if ungrouped:
        print(f"{'none':>5}{ungrouped:>9,}")
    if suggested:
        accept = f"spice name {quoted(run)} --suggest"
        print(f"\nNames with a question mark are suggestions; accept them with: {accept}")


def name(
    run: RunArgument,
    group: Annotated[
        str | None, typer.Argument(metavar="GROUP", help="Group number or name.", show_default=False)
    ] = None,
    new_name: Annotated[
        str | None, typer.Argument(metavar="NAME", help='The new name, or "" to remove it.', show_default=False)
    ] = None,
    *,
    suggest: Annotated[bool, typer.Option("--suggest", help="Suggest names for groups without one.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Accept all suggested names without asking.")] = False,
) -> None:
    """Name a group. The name appears in labels.csv, exports and predictions, and survives re-runs.

    With --suggest, the built-in encoder proposes words that fit most images of a group and few others. If no word
    fits, it proposes none.
    """
    from spice.runs.edits import Name

    editor = _editor(run)
    if suggest or yes:
        if group is not None:
            raise UserError(f"--suggest covers all groups; leave out {group!r}")
        _accept_suggested(editor, accept=yes)
        return
    if group is None or new_name is None:
        raise UserError("give a group and a name (spice name RUN 3 mountains), or --suggest")
    number, new_name = group_number(editor.groups, group), new_name.strip()
    _apply(editor, Name(group=number, name=new_name))
    print(f"group {number} is now called {new_name}" if new_name else f"group {number} no longer has a name")


def _accept_suggested(editor: "Editor", *, accept: bool) -> None:
    """Show the suggested names and apply them if the user agrees."""
    from spice.runs.edits import Name
    from spice.runs.suggested_names import read_words, suggest_names

    words, groups, run = read_words(editor.result), editor.groups, quoted(editor.run)
    if words is None:
        raise UserError(
            f"cannot suggest names: the encoder {editor.result.views.encoder} has no words, or an older version of "
            f"spice made {editor.run}; in that case run: spice resume {run}"
        )
    suggested = suggest_names(words, groups)
    for number, word in suggested.items():
        print(f"{number:>5}{_images(groups, number):>15}  {word}?")
    if not suggested:
        print("no suggestions: no word clearly fits an unnamed group")
    elif accept or confirmed("Accept these names?"):
        with editing(editor.run):
            for number, word in suggested.items():
                editor.do(Name(group=number, name=word))
        print(f"named {counted(len(suggested), 'group')}; undo with: spice undo {run}")
    else:
        print(
            f"nothing changed; accept all with: spice name {run} --suggest --yes, or one: spice name {run} GROUP NAME"
        )


def merge(
    run: RunArgument, groups: Annotated[list[str], typer.Argument(metavar="GROUPS", help="Two or more groups.")]
) -> None:
    """Merge groups into the first one, which keeps its number."""
    from spice.runs.edits import Merge

    if len(groups) < 2:
        raise UserError(f"need at least 2 groups to merge, got {len(groups)}; example: spice merge RUN 3 5")
    editor = _editor(run)
    numbers = [group_number(editor.groups, group) for group in groups]
    after = _apply(editor, Merge(groups=numbers))
    print(f"{_titled(after, numbers[0])} now has {_images(after, numbers[0])}")


def split(
    run: RunArgument,
    group: GroupArgument,
    *,
    into: Annotated[int, typer.Option(metavar="N", min=2, help="Number of parts.")] = 2,
) -> None:
    """Split a group by visual similarity. The largest part keeps its number and name."""
    from spice.stages.groups.split import propose_split

    editor = _editor(run)
    before = editor.groups
    number = group_number(before, group)
    after = _apply(editor, propose_split(editor.result, before, number, into=into))
    added = [part for part in after.existing if part not in before.existing]
    parts = ", ".join(f"{_titled(after, part)} has {_images(after, part)}" for part in (number, *added))
    print(f"split: {parts}")


def move(
    run: RunArgument,
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="Group number or name, `new`, or `none`.", show_default=False)
    ],
    images: Annotated[list[str], typer.Argument(metavar="IMAGES", help="Paths, or unique file names.")],
) -> None:
    """Move images to a group, a new group (`new`), or their next best group (`none`).

    Your choice overrides the prediction, and `spice learn` keeps it.
    """
    import numpy as np

    from spice.runs.edits import Move, Reject
    from spice.runs.explain_image import find_row

    editor = _editor(run)
    result, before = editor.result, editor.groups
    rows = np.array([find_row(result.labels, image, source=result.manifest.source) for image in images])
    if group == "none":
        for number in np.unique(before.group[rows][before.group[rows] >= 0]).tolist():
            _apply(editor, Reject(images=editor.base.images(rows[before.group[rows] == number]), group=number))
    else:
        target = None if group == "new" else group_number(before, group)
        _apply(editor, Move(images=editor.base.images(rows), group=target))
    after = editor.groups
    for image, row in zip(images, rows.tolist(), strict=True):
        print(f"{image}: {before.name(int(before.group[row]))} -> {after.name(int(after.group[row]))}")


def set_aside(
    run: RunArgument,
    group: GroupArgument,
    *,
    back: Annotated[bool, typer.Option("--back", help="Restore the group.")] = False,
) -> None:
    """Set a group aside: its images belong to no group and are not exported."""
    from spice.runs.edits import SetAside

    editor = _editor(run)
    number = group_number(editor.groups, group)
    after = _apply(editor, SetAside(group=number, aside=not back))
    print(f"{_titled(after, number)} is {'back' if back else 'set aside'}, with {_images(after, number)}")


def undo(run: RunArgument) -> None:
    """Undo the last edit. Repeat to go further back."""
    editor = _editor(run)
    with editing(run):
        last = editor.undo()
    print(f"undone: {last.operation.words}; redo with: spice redo {quoted(run)}" if last else "nothing to undo")


def redo(run: RunArgument) -> None:
    """Redo the last undone edit."""
    editor = _editor(run)
    with editing(run):
        last = editor.redo()
    print(f"redone: {last.operation.words}" if last else "nothing to redo")


def _editor(run: Path) -> "Editor":
    from spice.runs.editor import Editor

    return Editor(run)


def _apply(editor: "Editor", operation: "Operation") -> "Groups":
    with editing(editor.run):
        return editor.do(operation)


def group_number(groups: "Groups", text: str) -> int:
    """The group with this name or number."""
    named = [number for number, name in groups.names.items() if name == text]
    if named:
        return named[0]
    if text.isdecimal():
        return int(text)
    names = ", ".join(groups.names.values()) or "no group has a name yet"
    raise UserError(f"there is no group called {text!r} (names: {names}); list all with: spice groups RUN")


def _titled(groups: "Groups", number: int) -> str:
    name = groups.names.get(number)
    return f"group {number} ({name})" if name else f"group {number}"


def _images(groups: "Groups", number: int) -> str:
    return counted(int((groups.group == number).sum()), "image")
