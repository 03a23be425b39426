"""`spice report`: the page of a run, written again."""

from pathlib import Path
from typing import Annotated

import typer

from spice.cli.help import examples

EXAMPLES = examples("spice report photos.spice  # then open photos.spice/report.html")


def command(run: Annotated[Path, typer.Argument(help="The run folder.")]) -> None:
    """Write report.html again, from the files of the run alone; every run writes it at its end by itself."""
    from spice.report import write_report
    from spice.runs import told_in_words

    with told_in_words(run):
        print(write_report(run))
