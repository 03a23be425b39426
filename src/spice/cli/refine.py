"""`spice refine`: joint training on the reliable answers of a finished run."""

from pathlib import Path
from typing import Annotated

import typer

from spice.cli.cluster import finish
from spice.cli.help import examples
from spice.cli.showing import shown_progress
from spice.cli.under_way import under_way

EXAMPLES = examples(
    "spice refine photos.spice",
    "spice refine photos.spice --minutes 20",
    "spice refine photos.spice --labels some.csv  # path,label: learned from, unlike the truth of evaluate",
)


def command(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    minutes: Annotated[
        float | None, typer.Option(min=0.1, help="How long to train; by default a few hundred steps.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="A csv (path, label) of a few images, to learn from; clusters get these names.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the account as JSON.")] = False,
) -> None:
    """Train encoder and head together on the reliable answers. The result counts only if no check speaks against it."""
    from spice.label_table import read_label_table
    from spice.pipeline import refine

    given = None if labels is None else read_label_table(labels)
    with under_way(run), shown_progress() as progress:
        account = refine(run, minutes=minutes, labels=given, progress=progress)
    finish(account, as_json=as_json)
