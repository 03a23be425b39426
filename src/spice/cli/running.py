"""Shared by commands that run the pipeline: options, and how Ctrl-C and `kill` stop them."""

import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from types import FrameType
from typing import Annotated

import typer

from spice.errors import NoticeWarning, SpiceWarning, UserError


def find_run(path: Path) -> Path:
    """Accept the image folder `photos` in place of its run folder `photos.spice`; return any other path unchanged."""
    if path.suffix == ".spice" or (path / "manifest.json").exists() or (path / "model.json").exists():
        return path
    whole = path.resolve()  # `.` has no name of its own
    name = f"{whole.name}.spice"
    return next((run for run in (Path(name), whole.parent / name) if (run / "manifest.json").exists()), path)


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


@contextmanager
def interruptible(run: Path) -> Iterator[None]:
    """When the user stops the work, say how to resume. Hold back warnings that the summary prints at the end."""
    before = signal.signal(signal.SIGTERM, _stop)
    kept = f"finished work is kept. Resume with: spice resume {quote(str(run))}"
    try:
        with stoppable(kept), warnings.catch_warnings():
            warnings.simplefilter("ignore", SpiceWarning)
            warnings.simplefilter("always", NoticeWarning)
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def stoppable(kept: str) -> Iterator[None]:
    """On Ctrl-C, end with one line that says what is `kept` and how to resume."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"\nspice: stopped; {kept}", file=sys.stderr)
        raise typer.Exit(130) from None  # what shells expect of a command ended by Ctrl-C


def model_folder(run: Path) -> Path:
    """The model of a run's current result (after `spice learn`, the learned one), or a model folder itself."""
    from spice.runs import open_result
    from spice.runs.artifacts import MODEL
    from spice.runs.folder import is_run

    if not is_run(run):
        return run
    result = open_result(run)
    learned = result.groups.model
    if learned is None:
        return result.need(MODEL)
    if not (run / learned).exists():
        raise UserError(f"{run / learned} is missing; run spice learn {run} again, or undo it with: spice undo {run}")
    return run / learned


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the system's signature
    raise KeyboardInterrupt
