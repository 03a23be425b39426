"""`spice cluster`: from a folder of images to groups, with a figure for every image that says how far to trust it."""

from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spice.cli.help import examples
from spice.cli.showing import show_account, shown_progress
from spice.cli.under_way import under_way
from spice.errors import NothingTrustworthyError, UserError

if TYPE_CHECKING:
    from spice.runs import Account
    from spice.settings import Stage

EXAMPLES = examples(
    "spice cluster photos -k 10",
    "spice cluster 'scans/**/*.tif' -k 4 --out scans.spice --seed 1",
    "spice cluster images.csv -k 20  # a list of paths: .txt, .csv, .parquet",
    "spice cluster photos.zip -k 10 --json > account.json",
    "spice cluster digits -k 10 --encoder scratch --size 16 --no-flip --refine",
    "spice cluster photos -k 10 --preset quick  # a first look in half the time",
    "spice cluster images --preset paper:stl10 --stages 1-2  # as in the paper; then: spice resume images.spice",
)
STAGES: "tuple[Stage, ...]" = ("features", "heads", "joint")


def command(
    images: Annotated[
        str,
        typer.Argument(
            help="A folder, a glob, a list of paths (.txt, .csv, .parquet), an archive (.tar, .zip) or an array (.npy)."
        ),
    ],
    *,
    clusters: Annotated[
        int | None,
        typer.Option("-k", "--clusters", min=2, help="How many groups to make. With --preset paper:... the paper's."),
    ] = None,
    preset: Annotated[
        str, typer.Option(help="quick, standard, or paper:stl10, paper:cifar10, ...: the paper's settings.")
    ] = "standard",
    encoder: Annotated[
        str | None,
        typer.Option(
            help="What looks at the images: lite0, scratch (trained on them), hf:facebook/dinov2-small, ...",
            show_default="lite0",
        ),
    ] = None,
    size: Annotated[int | None, typer.Option(min=8, help="Pixels on a side shown to the encoder.")] = None,
    flip: Annotated[
        bool, typer.Option("--flip/--no-flip", help="Whether a mirrored image shows the same; not so for text, digits.")
    ] = True,
    refine: Annotated[bool, typer.Option("--refine", help="Train encoder and head together afterwards.")] = False,
    minutes: Annotated[float | None, typer.Option(min=0.1, help="How long --refine may train.")] = None,
    stages: Annotated[
        str | None,
        typer.Option(
            help="Stop after the last of these: features,heads,joint or 1-3. Go on later with: spice resume RUN.",
            show_default="all that are asked for",
        ),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="A csv (path, label) of a few images, for --refine to learn from.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; by default IMAGES.spice, here.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same groups.")] = 0,
    redo: Annotated[bool, typer.Option("--redo", help="Replace a run of other settings or other images.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the account as JSON.")] = False,
) -> None:
    """Group images by meaning. Run again, it goes on where it was; the originals are only read."""
    from spice.label_table import read_label_table
    from spice.pipeline import cluster
    from spice.presets import preset as named

    last = last_of(stages) if stages else "joint"
    out = out or default_out(images)
    settings = named(
        preset,
        clusters=clusters,
        encoder=encoder,
        size=size,
        flip=flip,
        refine=refine or (stages is not None and last == "joint"),
        minutes=minutes,
        seed=seed,
    )
    if labels is not None:
        settings = settings.model_copy(update={"given": read_label_table(labels)})
    if settings.joint is None and (minutes is not None or labels is not None):
        raise UserError("--minutes and --labels are for joint training, which was not asked for: add --refine")
    with under_way(out), shown_progress() as progress:
        account = cluster(images, settings, out, last=last, redo=redo, progress=progress)
    finish(account, as_json=as_json)


def last_of(stages: str) -> "Stage":
    """`features,heads`, `1-2` or `2` -> `heads`. Stages before the last are done in any case: it needs them."""
    numbers = {name: number for number, stage in enumerate(STAGES) for name in (stage, str(number + 1))}
    parts = [part.strip() for part in stages.replace("-", ",").split(",")]
    if unknown := [part for part in parts if part not in numbers]:
        raise UserError(f"there is no stage {unknown[0]!r}: the stages are 1 features, 2 heads, 3 joint; say 1-2")
    return STAGES[max(numbers[part] for part in parts)]


def default_out(images: str) -> Path:
    """`photos/summer` -> `summer.spice` in the current folder."""
    path = Path(images)
    name = path.resolve().name if path.is_dir() else path.name.partition(".")[0]
    return Path(f"{'images' if has_magic(name) or not name else name}.spice")


def finish(account: "Account", *, as_json: bool) -> None:
    """Show the account; a finished run in which nothing can be trusted ends with its own exit code."""
    show_account(account, as_json=as_json)
    if account.reliable == 0:
        raise NothingTrustworthyError(
            f"no image is reliable: the groups in {account.run} are guesses; try fewer clusters or another --encoder"
        )
