"""`spice datasets`: list and download the data sets of the paper's tables."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spice.cli.help import Command, Group, examples
from spice.cli.running import stoppable

if TYPE_CHECKING:
    from spice.benchmark.datasets import Card, Counts

EXAMPLES = examples(
    "spice datasets  # list the data sets, and where they are",
    "spice datasets get cifar10",
    "spice datasets get stl10 --to /data  # then set SPICE_DATA=/data",
)
GET_EXAMPLES = examples(
    "spice datasets get cifar10",
    "spice datasets get imagenet-10 --from /data/imagenet",
    "spice datasets get cifar10 --from cifar-10-python.tar.gz",
)

app = typer.Typer(
    invoke_without_command=True, cls=Group, epilog=EXAMPLES, help="List or download the data sets used in the paper."
)


@app.callback()
def command(context: typer.Context) -> None:
    """List or download the data sets used in the paper."""
    if context.invoked_subcommand is not None:
        return
    from spice.benchmark.datasets import CATALOG, default_root, located

    root = default_root()
    print(f"{'':<14}{'K':>4}{'pixels':>13}{'train':>9}{'test':>8}{'unlabeled':>11}{'download':>10}   where")
    for card in CATALOG.values():
        print(_line(card, located(card, root)))
    print(f"\nfolder     {root} (set SPICE_DATA to change it)")
    print("next       spice datasets get NAME")


@app.command("get", cls=Command, epilog=GET_EXAMPLES)
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name, as listed by `spice datasets`.")],
    *,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Local archive to unpack, or folder to use in place.", show_default=False),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(help="Store it in this folder instead of $SPICE_DATA.", show_default=False),
    ] = None,
) -> None:
    """Download a data set, or use a local archive or folder. Interrupted downloads resume."""
    from spice.benchmark import datasets

    card, root = datasets.card_of(name), to or datasets.default_root()
    kept = "the partial download is kept. Run the same command again to resume"
    with stoppable(kept) as progress:
        dataset = datasets.get(name, source=source, root=root, progress=progress)
    print(f"{card.title}: {_counted(dataset.counts)} images in {len(dataset.classes)} classes")
    print(f"folder     {datasets.located(card, root)}")
    if dataset.counts != card.counts:
        print(f"note       the published set has {_counted(card.counts)} images, so scores are not comparable")


def _line(card: "Card", place: Path | None) -> str:
    download = f"{card.download_bytes / 1e6:,.0f} MB" if card.files else "-"
    train, test, unlabeled = (f"{count:,}" if count else "-" for count in card.counts)
    sizes = f"{card.clusters:>4}{card.pixels:>13}{train:>9}{test:>8}{unlabeled:>11}{download:>10}"
    return f"{card.name:<14}{sizes}   {place or '-'}"


def _counted(counts: "Counts") -> str:
    return ", ".join(f"{count:,} {part}" for part, count in counts._asdict().items() if count)
