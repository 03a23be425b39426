"""Arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer


def find_run(path: Path) -> Path:
    """Accept the image folder `photos` in place of its run folder `photos.spice`; return any other path unchanged."""
    if path.suffix == ".spice" or (path / "manifest.json").exists() or (path / "model.json").exists():
        return path
    folder = path.resolve()  # `.` has no name of its own
    name = f"{folder.name}.spice"
    return next((run for run in (Path(name), folder.parent / name) if (run / "manifest.json").exists()), path)


RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.", show_default=False, callback=find_run)]
Details = Annotated[bool, typer.Option("--details", help="Also show heads, epochs, losses and the time of each step.")]
Open = Annotated[
    bool | None,
    typer.Option("--open/--no-open", help="Open the report when done.", show_default="ask"),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ... or mps.")]
Rescan = Annotated[
    bool,
    typer.Option("--rescan", help="Reread every image, even if its name, size and date are unchanged."),
]
SettingsFile = Annotated[
    Path | None,
    typer.Option("--settings", help="TOML file with settings to override (see spice settings).", show_default=False),
]
