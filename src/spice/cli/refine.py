"""`spice refine`: joint training on the reliable labels of a finished run."""

from typing import Annotated

import typer

from spice.cli.help import examples
from spice.cli.labels import Labels, Split, add_labels
from spice.cli.options import Details, Device, Json, Open, RunArgument, SettingsFile
from spice.cli.running import interruptible
from spice.cli.summary import finish

EXAMPLES = examples(
    "spice refine photos.spice",
    "spice refine photos.spice --minutes 20",
    "spice refine photos.spice --labels some.csv  # also learn a few labels",
    "spice refine photos.spice --settings mine.toml",
)


def command(
    run: RunArgument,
    *,
    minutes: Annotated[
        float | None,
        typer.Option(metavar="N", min=0.1, help="Time limit in minutes.", show_default="a few hundred steps"),
    ] = None,
    labels: Labels = None,
    split: Split = False,
    settings_file: SettingsFile = None,
    device: Device = "auto",
    details: Details = False,
    open_page: Open = None,
    as_json: Json = False,
) -> None:
    """Train encoder and head together on the reliable images (stage 3).

    Images that you placed (spice move, the explorer, --labels) are learned as you placed them. The new result is used
    only if it passes checks that need no labels; the earlier one is kept either way.

    It may help if the encoder was trained from scratch and most images are reliable. Do not expect much: on digits,
    accuracy changed by -0.4 to +1.0 percentage points (seeds 0 to 4). With a pretrained encoder (lite0, hf:...) it
    gained nothing. What helps more: a larger --size, a better --encoder, or corrections and `spice learn`.
    """
    from spice.engine.processes import processes_from_environment
    from spice.pipeline import refine

    if labels is not None and processes_from_environment().first:
        add_labels(run, labels, split=split)
    with interruptible(run) as progress:
        summary = refine(run, minutes=minutes, settings_file=settings_file, device=device, progress=progress)
    finish(summary, as_json=as_json, details=details, open_page=open_page)
