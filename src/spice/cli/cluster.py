"""`spice cluster`: from a folder of images to groups, with a chance for every image."""

import os
import re
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spice.cli.help import examples
from spice.cli.options import Details, Device, Json, Open, Rescan, SettingsFile
from spice.cli.running import interruptible
from spice.cli.summary import finish
from spice.errors import UserError

if TYPE_CHECKING:
    from spice.presets import Clusters
    from spice.settings import Stage

EXAMPLES = examples(
    "spice cluster photos  # find the number of groups",
    "spice cluster photos -k 10",
    "spice cluster photos -k 7  # a second result in the same run folder",
    "spice cluster photos -k 5:40  # find the number of groups in this range",
    "spice cluster photos --plan  # how much time, memory and disk space it needs",
    "spice cluster photos --sizes 0.6,0.3,0.1  # if you know the sizes",
    "spice cluster photos --cut 4  # start from the tree of groups, cut at 4",
    "spice cluster 'scans/**/*.tif' -k 4 --out scans.spice --seed 1",
    "spice cluster images.csv -k 20  # a list of paths: .txt, .csv, .parquet",
    "spice cluster photos.zip -k 10 --json > summary.json",
    "spice cluster photos --preset quick  # a first look",
    "spice cluster photos --settings mine.toml  # see spice settings",
    "spice cluster digits -k 10 --encoder scratch --size 16 --no-flip --refine",
    "spice cluster images --preset paper:stl10 --stages 1-2  # then: spice resume",
    "spice cluster s3://bucket/photos -k 50 --engine ray --address auto",
)

STAGES: "tuple[Stage, ...]" = ("features", "heads", "joint")


def command(
    images: Annotated[
        str,
        typer.Argument(
            metavar="IMAGES",
            help="A folder, glob, list of paths (.txt, .csv, .parquet), archive (.tar, .zip), array (.npy), or "
            "an address such as s3://bucket/photos.",
        ),
    ],
    others: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    *,
    clusters: Annotated[
        str | None,
        typer.Option(
            "-k",
            "--clusters",
            metavar="K|FROM:TO",
            help="Number of groups, or a range to search. Presets paper:... have their own.",
            show_default="found automatically",
        ),
    ] = None,
    cut: Annotated[
        int | None,
        typer.Option(metavar="K", min=2, help="Number of groups, like -k, but start from a cut of the tree of groups."),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="SHARES|FILE",
            help="Known sizes of the groups, as shares or counts, such as 0.5,0.3,0.2 (replaces -k).",
        ),
    ] = None,
    preset: Annotated[
        str, typer.Option(help="quick, standard, or the paper's settings: paper:stl10, paper:cifar10, ...")
    ] = "standard",
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Encoder: lite0 (built in), lite2 (larger), scratch (trained on your images), hf:NAME, onnx:FILE, ...",
            show_default="lite0",
        ),
    ] = None,
    size: Annotated[int | None, typer.Option(metavar="N", min=8, help="Image size for the encoder, in pixels.")] = None,
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
            help="Also train encoder and head together (stage 3). May help a little with --encoder scratch. With a "
            "pretrained encoder it gained nothing; try a larger --size or --encoder lite2 instead.",
        ),
    ] = False,
    minutes: Annotated[
        float | None, typer.Option(metavar="N", min=0.1, help="Time limit for --refine, in minutes.")
    ] = None,
    stages: Annotated[
        str | None,
        typer.Option(
            help="Stages to run, such as 1-2 or features,heads. Resume later with: spice resume RUN.",
            show_default="all",
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="CSV file (path,label) with a few labels. Groups take these names, --refine learns them, and "
            "without -k they help to find the number of groups."
        ),
    ] = None,
    extra: Annotated[
        str | None, typer.Option(help="More unlabeled images, used only for training (stages 1 and 3).")
    ] = None,
    settings_file: SettingsFile = None,
    out: Annotated[Path | None, typer.Option(help="Run folder for the results.", show_default="IMAGES.spice")] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Random seed. The same seed gives the same groups.", show_default="0"),
    ] = None,
    device: Device = "auto",
    redo: Annotated[bool, typer.Option("--redo", help="Use this run folder even if the images have changed.")] = False,
    rescan: Rescan = False,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(help="Where to read and embed images: on this machine, or on all machines of a Ray cluster."),
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="Address of the Ray cluster, such as auto or ray://HOST:10001.", show_default="this machine"),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show how much time, memory and disk space the run needs, and exit.")
    ] = False,
    details: Details = False,
    open_page: Open = None,
    as_json: Json = False,
) -> None:
    """Sort images into groups by what they show. Your images are never changed; run the command again to resume."""
    from spice.group_sizes import read_sizes
    from spice.presets import with_cut_start
    from spice.settings_file import requested_settings

    if others:  # the shell expanded a glob
        raise UserError(
            f"got {len(others) + 1:,} paths, but cluster takes one; pass their folder, or put a glob in quotes: "
            "'photos/*.jpg'"
        )
    if address is not None and engine == "local":
        raise UserError("--address needs --engine ray")
    if cut is not None and (clusters or sizes):
        other = "-k" if clusters else "--sizes"
        raise UserError(f"{other} and --cut both set the number of groups; use only one of them")
    last = last_stage(stages) if stages else "joint"
    out = out or default_out(images)
    settings = requested_settings(
        preset,
        settings_file,
        clusters=parse_clusters(clusters) or cut,
        sizes=None if sizes is None else read_sizes(sizes),
        encoder=encoder,
        size=size,
        flip=flip,
        refine=refine or (stages is not None and last == "joint"),
        minutes=minutes,
        seed=seed,
    )
    if cut is not None:
        settings = settings.model_copy(update={"heads": with_cut_start(settings.heads)})
    if extra is not None:
        settings = settings.model_copy(update={"extra": os.path.abspath(extra)})  # noqa: PTH100 - keeps globs
    if labels is not None:
        from spice.label_table import read_label_table

        settings = settings.model_copy(update={"given": read_label_table(labels)})
    if settings.joint is None and minutes is not None:
        raise UserError("--minutes limits joint training; add --refine")
    if plan:
        from spice.cli.plan import show_plan

        show_plan(images, settings, as_json=as_json)
        return
    with interruptible(out) as progress:
        from spice.pipeline import cluster  # imports torch, which takes seconds; so the options are checked first

        summary = cluster(
            images,
            settings,
            out,
            last=last,
            redo=redo,
            rescan=rescan,
            download=True,
            device=device,
            engine=engine,
            address=address,
            progress=progress,
        )
    finish(summary, as_json=as_json, details=details, open_page=open_page)


def parse_clusters(clusters: str | None) -> "Clusters":
    """`10` -> 10; `5:40` -> (5, 40); None -> None."""
    if clusters is None:
        return None
    least, colon, most = clusters.partition(":")
    if not least.isdecimal() or (colon and not most.isdecimal()):
        raise UserError(f"-k takes a number such as 10 or a range such as 5:40; got {clusters!r}")
    if colon:
        return int(least), int(most)
    if int(least) < 2:
        raise UserError(f"need at least 2 groups, got -k {clusters}")
    return int(least)


def last_stage(stages: str) -> "Stage":
    """`features,heads`, `1-2` or `2` -> `heads`. The stages before it always run, because it needs them."""
    numbers = {name: number for number, stage in enumerate(STAGES) for name in (stage, str(number + 1))}
    parts = [part.strip() for part in stages.replace("-", ",").split(",")]
    if unknown := [part for part in parts if part not in numbers]:
        raise UserError(f"unknown stage {unknown[0]!r}; use 1 (features), 2 (heads), 3 (joint) or a range such as 1-2")
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
