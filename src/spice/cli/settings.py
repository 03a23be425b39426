"""`spice settings`: every setting, as TOML that can be changed and given back."""

from pathlib import Path
from typing import Annotated

import typer

from spice.cli.help import examples
from spice.errors import UserError

EXAMPLES = examples(
    "spice settings photos.spice  # what the current result was made with, all that the program decided included",
    'spice settings --preset standard -k 10 > mine.toml  # change it ("none": not set), then:',
    "spice cluster photos --settings mine.toml",
    "spice settings --preset paper:stl10",
)


def command(
    run: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="The run folder.", show_default=False)] = None,
    *,
    preset: Annotated[
        str | None, typer.Option(help="quick, standard, or paper:stl10, ...: print a preset instead.")
    ] = None,
    clusters: Annotated[int | None, typer.Option("-k", "--clusters", min=2, help="How many groups to make.")] = None,
    encoder: Annotated[str | None, typer.Option(help="The encoder, such as lite0 or scratch.")] = None,
    refine: Annotated[bool, typer.Option("--refine", help="With joint training.")] = False,
) -> None:
    """Print the settings of a run or of a preset as TOML."""
    from spice.settings_file import to_toml

    if (run is None) == (preset is None):
        raise UserError("give a run folder, or a preset with --preset")
    if run is not None:
        from spice.runs import open_result

        print(to_toml(open_result(run).entry.settings), end="")
        return
    from spice.presets import preset as named

    chosen = named(preset or "standard", clusters=clusters or 10, encoder=encoder, refine=refine)
    print(to_toml(chosen.model_dump(mode="json")), end="")
