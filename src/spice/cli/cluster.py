"""`spice cluster`: from a folder of images to groups, with a number for every image that says how far to trust it."""

import os
import re
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spice.cli.display import offer_page, show_account, shown_progress
from spice.cli.help import examples
from spice.cli.running import Details, Device, Json, Open, Rescan, SettingsFile, interruptible
from spice.errors import NothingTrustworthyError, UserError

if TYPE_CHECKING:
    from spice.runs import Account
    from spice.settings import Stage

EXAMPLES = examples(
    "spice cluster photos  # finds how many groups there are",
    "spice cluster photos -k 10",
    "spice cluster photos -k 7  # in the same run folder, in seconds; both results are kept (spice runs)",
    "spice cluster photos -k 5:40  # finds a number in this range",
    "spice cluster photos --sizes 0.6,0.3,0.1  # you know how large the groups are",
    "spice cluster photos --cut 4  # groups within groups, cut at 4",
    "spice cluster 'scans/**/*.tif' -k 4 --out scans.spice --seed 1",
    "spice cluster images.csv -k 20  # a list of paths: .txt, .csv, .parquet",
    "spice cluster photos.zip -k 10 --json > account.json",
    "spice cluster digits -k 10 --encoder scratch --size 16 --no-flip --refine",
    "spice cluster photos -k 10 --preset quick  # a first look in half the time",
    "spice cluster photos -k 10 --settings mine.toml  # any setting; spice settings prints them all",
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
        str | None,
        typer.Option(
            "-k",
            "--clusters",
            metavar="K or FROM:TO",
            help="How many groups to make, or a range to find the number in. With --preset paper:... the paper's.",
            show_default="found",
        ),
    ] = None,
    cut: Annotated[
        int | None,
        typer.Option(min=2, help="Cut the tree of groups within groups at this many, and train from there."),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="SHARES or FILE",
            help="How large the groups are, where you know: shares or counts, such as 0.5,0.3,0.2. Says how many, too.",
        ),
    ] = None,
    preset: Annotated[
        str, typer.Option(help="quick, standard, or paper:stl10, paper:cifar10, ...: the paper's settings.")
    ] = "standard",
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Encoder: lite0 (built in), lite2 (larger), scratch (trained on your images), hf:NAME, onnx:FILE, ...",
            show_default="lite0",
        ),
    ] = None,
    size: Annotated[int | None, typer.Option(min=8, help="Pixels on a side shown to the encoder.")] = None,
    flip: Annotated[
        bool | None,
        typer.Option(
            "--flip/--no-flip", help="Allow mirrored views (use --no-flip for text and digits).", show_default="flip"
        ),
    ] = None,
    refine: Annotated[
        bool,
        typer.Option(
            "--refine",
            help="Train encoder and head together afterwards. Pays with --encoder scratch; with a pretrained encoder "
            "it gained nothing: try a larger --size or --encoder lite2 instead.",
        ),
    ] = False,
    minutes: Annotated[float | None, typer.Option(min=0.1, help="How long --refine may train.")] = None,
    stages: Annotated[
        str | None,
        typer.Option(
            help="Stop after the last of these: features,heads,joint or 1-3. Continue later with: spice resume RUN.",
            show_default="all",
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="A csv file (path, label) of a few images: for --refine to learn from, or to find how many groups fit."
        ),
    ] = None,
    extra: Annotated[
        str | None, typer.Option(help="More images without labels, for training (stages 1 and 3) only.")
    ] = None,
    settings_file: SettingsFile = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; by default IMAGES.spice, here.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="The same seed gives the same groups.", show_default="0")
    ] = None,
    device: Device = "auto",
    redo: Annotated[
        bool, typer.Option("--redo", help="Use the run folder even though its images have changed.")
    ] = False,
    rescan: Rescan = False,
    details: Details = False,
    open_page: Open = None,
    as_json: Json = False,
) -> None:
    """Group images by meaning. Run the same command again to resume; your images are only read."""
    from spice.given_sizes import agreed_clusters, read_sizes, with_sizes
    from spice.pipeline import cluster
    from spice.settings_file import requested

    last = last_stage(stages) if stages else "joint"
    out = out or default_out(images)
    count, between = how_many(clusters)
    if cut is not None and clusters is not None:
        raise UserError("-k and --cut both say how many groups to make: give one of them")
    shares = None if sizes is None else read_sizes(sizes)
    if shares is not None:
        if cut is not None:
            raise UserError("--sizes and --cut both say which groups to make: give one of them")
        count, between = agreed_clusters(clusters if between else count, shares), None
    settings = requested(
        preset,
        settings_file,
        clusters=count or cut,
        between=between,
        encoder=encoder,
        size=size,
        flip=flip,
        refine=refine or (stages is not None and last == "joint"),
        minutes=minutes,
        seed=seed,
    )
    if cut is not None:
        start = {"start": "cut", "sizes": "nearest"}  # groups of the tree are of any size
        settings = settings.model_copy(update={"heads": settings.heads.model_copy(update=start)})
    if shares is not None:
        settings = with_sizes(settings, shares)
    if extra is not None:
        settings = settings.model_copy(update={"extra": os.path.abspath(extra)})  # noqa: PTH100 - keeps globs
    if labels is not None:
        from spice.label_table import read_label_table

        settings = settings.model_copy(update={"given": read_label_table(labels)})
    if settings.joint is None and minutes is not None:
        raise UserError("--minutes is for joint training, which was not asked for: add --refine")
    with interruptible(out), shown_progress() as progress:
        account = cluster(
            images,
            settings,
            out,
            last=last,
            redo=redo,
            rescan=rescan,
            download=True,
            device=device,
            progress=progress,
        )
    finish(account, as_json=as_json, details=details, open_page=open_page)


def how_many(clusters: str | None) -> tuple[int | None, tuple[int, int] | None]:
    """`10` -> (10, None); `5:40` -> (None, (5, 40)); nothing -> (None, None): the number is to be found."""
    if clusters is None:
        return None, None
    least, colon, most = clusters.partition(":")
    if not least.isdecimal() or (colon and not most.isdecimal()):
        raise UserError(f"-k takes a number of groups such as 10, or a range such as 5:40; got {clusters!r}")
    if colon:
        return None, (int(least), int(most))
    if int(least) < 2:
        raise UserError(f"need at least 2 groups, got -k {clusters}")
    return int(least), None


def last_stage(stages: str) -> "Stage":
    """`features,heads`, `1-2` or `2` -> `heads`. Stages before the last are run in any case: it needs them."""
    numbers = {name: number for number, stage in enumerate(STAGES) for name in (stage, str(number + 1))}
    parts = [part.strip() for part in stages.replace("-", ",").split(",")]
    if unknown := [part for part in parts if part not in numbers]:
        raise UserError(f"unknown stage {unknown[0]!r}: the stages are 1 features, 2 heads, 3 joint; example: 1-2")
    return STAGES[max(numbers[part] for part in parts)]


def default_out(images: str) -> Path:
    """`photos/summer` -> `summer.spice`, `scans/**/*.tif` -> `scans-tif.spice`, in the current folder."""
    path = Path(images)
    if path.is_dir() or not has_magic(images):
        name = path.resolve().name if path.is_dir() else path.name.partition(".")[0]
        return Path(f"{name or 'images'}.spice")
    parts = path.parts
    first = next(place for place, part in enumerate(parts) if has_magic(part))
    folder = Path(*parts[:first]).resolve().name
    words = re.findall(r"\w+", " ".join(parts[first:]))
    return Path("-".join([folder or "images", *words]) + ".spice")


def finish(account: "Account", *, as_json: bool, details: bool = False, open_page: bool | None = False) -> None:
    """Show the account; a finished run in which nothing can be trusted ends with its own exit code.

    Args:
        open_page: whether to open the page in the browser; None: ask, where a person is watching.
    """
    if int(os.environ.get("RANK", "0")):
        return  # the first process speaks for all
    show_account(account, as_json=as_json, details=details)
    if account.reliable == 0:
        raise NothingTrustworthyError(
            f"no image is reliable: the groups in {account.run} are guesses; look at some: spice check {account.run}"
        )
    if not as_json:
        offer_page(Path(account.run), open_page)
