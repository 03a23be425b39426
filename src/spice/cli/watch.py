"""`spice watch`: sort new images into the groups of a run as they arrive."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spice.cli.help import examples
from spice.cli.options import Device, find_run
from spice.errors import UserError
from spice.wording import counted

if TYPE_CHECKING:
    from spice.watch import Arrived

EXAMPLES = examples(
    "spice watch camera --run photos.spice  # runs until Ctrl-C",
    "spice watch scans --run scans.spice --once  # for scripts and cron jobs",
)


def command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to watch.")],
    *,
    run: Annotated[
        Path | None,
        typer.Option(help="Run folder.", show_default="FOLDER.spice"),
    ] = None,
    every: Annotated[float, typer.Option(metavar="N", min=0.1, help="Seconds between scans.")] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="Scan once and exit.")] = False,
    device: Device = "auto",
) -> None:
    """Sort new images into the groups of a run as they arrive, and append them to RUN/watched.csv."""
    from spice.estimator import load
    from spice.runs.folder import refuse_links_outside
    from spice.runs.result import model_folder
    from spice.watch import Watcher

    run = find_run(run or _run_beside(folder))
    refuse_links_outside(run)
    watcher = Watcher(folder, run, load(model_folder(run), device=device))
    if watcher.by_name_only:
        print(
            f"skipped    {counted(watcher.by_name_only, 'file')} with a name in {watcher.table}, which "
            "an earlier version wrote without folders; delete its rows to sort them again",
            file=sys.stderr,
        )
    try:
        if once:
            _print_arrived(watcher.once(), watcher.unreadable())
        else:
            print(f"watching   {folder}; press Ctrl-C to stop", file=sys.stderr, flush=True)
            for arrived in watcher.watch(every=every):
                _print_arrived(arrived, watcher.unreadable())
    except KeyboardInterrupt:
        print(file=sys.stderr)
    written = f", in {watcher.table}" if watcher.count else ""
    print(f"images     {watcher.count:,} new{written}", file=sys.stderr)


def _run_beside(folder: Path) -> Path:
    """The run folder of the watched folder."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder} to watch")
    from spice.runs.folder import is_run

    run = find_run(folder)
    if run == folder and not is_run(folder):
        raise UserError(f"there is no run folder {folder.resolve().name}.spice; choose another with --run")
    return run


def _print_arrived(arrived: "list[Arrived]", unreadable: list[str]) -> None:
    for path, group, name, chance, unlike in arrived:
        place = f"{name or f'group {group}'} (chance {chance:.0%})"
        print(f"{path}: {place}{', unlike anything seen before' if unlike else ''}", flush=True)
    for path in unreadable:
        print(f"{path}: cannot be read as an image; tried again when it changes", file=sys.stderr, flush=True)
