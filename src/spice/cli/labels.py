"""`--labels` of `spice refine` and `spice learn`: labels from a file become edits of the run."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from spice.cli.running import confirmed, editing
from spice.wording import counted, quoted

Labels = Annotated[
    Path | None, typer.Option(help="CSV file (path,label) with a few labels to learn from; groups take these names.")
]
Split = Annotated[bool, typer.Option("--split", help="Split groups that hold images of two labels, without asking.")]


def add_labels(run: Path, file: Path, *, split: bool) -> None:
    """Name the groups and place the labeled images. A group with two labels is split if the user agrees."""
    from spice.label_table import read_label_table
    from spice.runs.editor import Editor
    from spice.stages.groups.given_labels import SharedGroupError, apply_labels

    labels, editor = read_label_table(file), Editor(run)
    with editing(run):
        try:
            added = apply_labels(editor, labels, split=split)
        except SharedGroupError as error:
            if not confirmed(f"{error}. Split it now?"):
                raise
            added = apply_labels(editor, labels, split=True)
    if added:
        print(f"{counted(len(added), 'edit')} from {file}; undo with: spice undo {quoted(run)}", file=sys.stderr)
