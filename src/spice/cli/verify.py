"""`spice verify`: find damaged files of a run."""

import sys

import typer

from spice.cli.help import examples
from spice.cli.options import RunArgument
from spice.wording import counted, quoted

EXAMPLES = examples("spice verify photos.spice  # every file of every result")


def command(run: RunArgument) -> None:
    """Check every file of a run for damage (size and checksum)."""
    from spice.runs import read_manifest
    from spice.runs.records import damaged_files

    manifest = read_manifest(run)
    damaged = {path for entry in manifest.results.values() for path in damaged_files(run, entry.folders)}
    if not damaged:
        print(f"no damage found in {counted(len(manifest.results), 'result')}")
        return
    for path in sorted(damaged):
        print(f"damaged    {path}", file=sys.stderr)
    print(f"to repair this, delete the damaged files, then run: spice resume {quoted(run)}", file=sys.stderr)
    raise typer.Exit(2)
