"""`spice settings`: print every setting as TOML, for --settings."""

from pathlib import Path
from typing import Annotated

import typer

from spice.cli.help import examples
from spice.cli.options import find_run
from spice.errors import UserError

EXAMPLES = examples(
    "spice settings photos.spice  # all settings of the current result",
    "spice settings --preset standard -k 10 > mine.toml  # edit this file, then:",
    "spice cluster photos --settings mine.toml",
    "spice settings --preset paper:stl10",
)


def command(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="Run folder.", show_default=False)] = None,
    *,
    preset: Annotated[
        str | None, typer.Option(help="Print a preset instead: quick, standard, paper:stl10, ...")
    ] = None,
    clusters: Annotated[
        int | None, typer.Option("-k", "--clusters", metavar="N", min=2, help="Number of groups.")
    ] = None,
    encoder: Annotated[str | None, typer.Option(help="Encoder, such as lite0 or scratch.")] = None,
    refine: Annotated[bool, typer.Option("--refine", help="Include joint training (stage 3).")] = False,
) -> None:
    """Print the settings of a run or of a preset as TOML; "none" means not set."""
    from spice.settings_file import to_toml

    if run is not None and preset is None:
        from spice.runs import open_result

        if clusters is not None or encoder is not None or refine:
            raise UserError("-k, --encoder and --refine change a preset, not a run; use them with --preset")
        print(to_toml(open_result(find_run(run)).entry.settings), end="")
    elif preset is not None and run is None:
        from spice.presets import preset as named

        chosen = named(preset, clusters=clusters, encoder=encoder, refine=refine)
        print(to_toml(chosen.model_dump(mode="json")), end="")
    else:
        raise UserError("give either a run folder or a preset, such as: spice settings --preset standard")
