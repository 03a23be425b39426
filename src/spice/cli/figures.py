"""`spice figures`: the paper's figures for a run."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from spice.cli.help import examples
from spice.cli.options import RunArgument
from spice.errors import UserError

EXAMPLES = examples("spice figures photos.spice", "spice figures photos.spice --out paper/figures")


def command(
    run: RunArgument,
    out: Annotated[Path | None, typer.Option(help="Output folder.", show_default="RUN/figures")] = None,
) -> None:
    """Draw the paper's figures as PNG and SVG: prototypes, t-SNE, head selection, neighbors, the toy example, ...

    After `spice evaluate`, also those that need true labels: t-SNE and neighbors by true class, accuracy of each head,
    and accuracy by share of images kept.
    """
    if find_spec("matplotlib") is None:
        raise UserError("figures need matplotlib; install it with: pip install matplotlib")
    from spice.report.figures import write_figures
    from spice.runs import explain_output_errors
    from spice.runs.folder import refuse_links_outside

    folder = out or run / "figures"
    if out is None:
        refuse_links_outside(run)
    with explain_output_errors(folder):
        print("\n".join(map(str, write_figures(run, folder))))
