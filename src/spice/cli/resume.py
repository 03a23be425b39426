"""`spice resume`: go on with a run that was stopped."""

from pathlib import Path
from typing import Annotated

import typer

from spice.cli.cluster import finish
from spice.cli.help import examples
from spice.cli.showing import shown_progress
from spice.cli.under_way import under_way

EXAMPLES = examples("spice resume photos.spice", "spice resume photos.spice --json  # print the account again")


def command(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the account as JSON.")] = False,
) -> None:
    """Go on with a run that was stopped, or print the account of a finished one."""
    from spice.pipeline import resume

    with under_way(run), shown_progress() as progress:
        account = resume(run, progress=progress)
    finish(account, as_json=as_json)
