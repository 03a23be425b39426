"""`spice cluster`: from a folder of images to groups, with a figure for every image that says how far to trust it."""

from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spice.cli.help import examples
from spice.cli.showing import show_account, shown_progress
from spice.cli.under_way import under_way
from spice.errors import NothingTrustworthyError

if TYPE_CHECKING:
    from spice.runs import Account

EXAMPLES = examples(
    "spice cluster photos -k 10",
    "spice cluster 'scans/**/*.tif' -k 4 --out scans.spice --seed 1",
    "spice cluster images.csv -k 20  # a list of paths: .txt, .csv, .parquet",
    "spice cluster photos.zip -k 10 --json > account.json",
    "spice cluster digits -k 10 --encoder scratch --size 16 --no-flip --refine",
)


def command(
    images: Annotated[
        str,
        typer.Argument(
            help="A folder, a glob, a list of paths (.txt, .csv, .parquet), an archive (.tar, .zip) or an array (.npy)."
        ),
    ],
    *,
    clusters: Annotated[int, typer.Option("-k", "--clusters", min=2, help="How many groups to make.")],
    encoder: Annotated[
        str,
        typer.Option(help="What looks at the images: lite0, scratch (trained on them), hf:facebook/dinov2-small, ..."),
    ] = "lite0",
    size: Annotated[int | None, typer.Option(min=8, help="Pixels on a side shown to the encoder.")] = None,
    flip: Annotated[
        bool, typer.Option("--flip/--no-flip", help="Whether a mirrored image shows the same; not so for text, digits.")
    ] = True,
    refine: Annotated[bool, typer.Option("--refine", help="Train encoder and head together afterwards.")] = False,
    minutes: Annotated[float | None, typer.Option(min=0.1, help="How long --refine may train.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; by default IMAGES.spice, here.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same groups.")] = 0,
    redo: Annotated[bool, typer.Option("--redo", help="Replace a run of other settings or other images.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the account as JSON.")] = False,
) -> None:
    """Group images by meaning. Run again, it goes on where it was; the originals are only read."""
    from spice.pipeline import cluster
    from spice.presets import standard

    out = out or default_out(images)
    settings = standard(
        clusters=clusters, encoder=encoder, size=size, flip=flip, refine=refine, minutes=minutes, seed=seed
    )
    with under_way(out), shown_progress() as progress:
        account = cluster(images, settings, out, redo=redo, progress=progress)
    finish(account, as_json=as_json)


def default_out(images: str) -> Path:
    """`photos/summer` -> `summer.spice` in the current folder."""
    path = Path(images)
    name = path.resolve().name if path.is_dir() else path.name.partition(".")[0]
    return Path(f"{'images' if has_magic(name) or not name else name}.spice")


def finish(account: "Account", *, as_json: bool) -> None:
    """Show the account; a run in which nothing can be trusted ends with its own exit code."""
    show_account(account, as_json=as_json)
    if account.reliable == 0:
        raise NothingTrustworthyError(
            f"no image is reliable: the groups in {account.run} are guesses; try fewer clusters or another --encoder"
        )
