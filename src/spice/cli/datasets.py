"""`spice datasets`: the data sets of the paper's tables, which are here, and getting one."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spice.cli.display import shown_progress
from spice.cli.help import examples
from spice.cli.running import STOPPED

if TYPE_CHECKING:
    from spice.benchmark.datasets import Card, Counts

EXAMPLES = examples(
    "spice datasets  # what there is, and what is on this machine",
    "spice datasets get cifar10",
    "spice datasets get stl10 --to /data  # find it again with SPICE_DATA=/data",
)
EXAMPLES_OF_GET = examples(
    "spice datasets get cifar10",
    "spice datasets get imagenet-10 --from /data/imagenet  # a folder is used where it lies",
    "spice datasets get cifar10 --from cifar-10-python.tar.gz  # an archive that you have already",
)

app = typer.Typer(invoke_without_command=True, epilog=EXAMPLES, help="The data sets of the paper's tables.")


@app.callback()
def command(context: typer.Context) -> None:
    """The data sets of the paper's tables: what there is, and what is on this machine."""
    if context.invoked_subcommand is not None:
        return
    from spice.benchmark.datasets import CATALOG, default_root, located

    root = default_root()
    print(f"{'':<14}{'K':>4}{'pixels':>13}{'train':>9}{'test':>8}{'unlabeled':>11}{'download':>10}   where")
    for card in CATALOG.values():
        print(_line(card, located(card, root)))
    print(f"\nkept in    {root} (set SPICE_DATA to choose another folder)")
    print("next       spice datasets get NAME")


@app.command("get", epilog=EXAMPLES_OF_GET)
def get(
    name: Annotated[str, typer.Argument(help="The data set, as `spice datasets` calls it.")],
    *,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="A local archive to unpack, or a folder to use where it lies.", show_default=False),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(help="Keep it in this folder instead of $SPICE_DATA.", show_default=False),
    ] = None,
) -> None:
    """Download a data set, or take it from a local archive or folder. A stopped download is resumed."""
    from spice.benchmark import datasets

    card, root = datasets.card_of(name), to or datasets.default_root()
    try:
        with shown_progress() as progress:
            dataset = datasets.get(name, source=source, root=root, progress=progress)
    except KeyboardInterrupt:
        print("\nspice: stopped; what has arrived is kept. Give the same command again to go on", file=sys.stderr)
        raise typer.Exit(STOPPED) from None
    print(f"{card.title}: {_in_words(dataset.counts)} images in {len(dataset.classes)} classes")
    print(f"in         {datasets.located(card, root)}")
    if dataset.counts != card.counts:
        print(f"note       {_in_words(card.counts)} are published: scores here do not compare with published ones")


def _line(card: "Card", place: Path | None) -> str:
    download = f"{card.download_bytes / 1e6:,.0f} MB" if card.files else "-"
    train, test, unlabeled = (f"{count:,}" if count else "-" for count in card.counts)
    sizes = f"{card.clusters:>4}{card.pixels:>13}{train:>9}{test:>8}{unlabeled:>11}{download:>10}"
    return f"{card.name:<14}{sizes}   {place or '-'}"


def _in_words(counts: "Counts") -> str:
    return ", ".join(f"{count:,} {part}" for part, count in counts._asdict().items() if count)
