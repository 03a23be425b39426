"""`spice predict`: sort new images into the groups of a run."""

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spice.cli.help import examples
from spice.cli.options import Device, find_run
from spice.cli.running import stoppable

if TYPE_CHECKING:
    from spice.estimator import Assessment
    from spice.tables import Column

EXAMPLES = examples(
    "spice predict photos.spice new_photos --out new.csv",
    "spice predict photos.spice new_photos | head  # CSV on standard output",
    "spice predict photos.spice/model beach.jpg  # the model folder alone is enough",
)

SHOWN = 10  # images, on a terminal


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder, or its model/ folder.", callback=find_run)],
    images: Annotated[
        list[str], typer.Argument(metavar="IMAGES", help="A folder, glob, list, archive or array; or some image files.")
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Output file, .csv or .parquet.", show_default="CSV on standard output, a short table on a terminal"
        ),
    ] = None,
    device: Device = "auto",
) -> None:
    """Sort more images into the groups of a run, with the chance that each is right."""
    from spice.runs import explain_output_errors
    from spice.runs.result import model_folder
    from spice.tables import refuse_other_ending, write_csv, write_table

    if out is not None:
        refuse_other_ending(out)
    with stoppable("nothing was written") as progress:
        from spice.estimator import load  # imports torch, which takes seconds

        model = load(model_folder(run), device=device)
        found = model.assess(images[0] if len(images) == 1 else images, progress=progress)
    columns = {**found.columns(), **_groups(run, found)}
    with explain_output_errors(out or Path("the table")):
        if out is None and sys.stdout.isatty():
            print("\n".join(_short_table(columns)))
        elif out is None:
            write_csv(sys.stdout, columns)
            sys.stdout.flush()
        else:
            out.parent.mkdir(parents=True, exist_ok=True)
            write_table(out, columns)
    _print_summary(found, out)


def _groups(run: Path, found: "Assessment") -> "dict[str, Column]":
    """The group and its name for each image, after edits; empty for a model without a run."""
    from spice.runs import open_result
    from spice.runs.folder import is_run

    return open_result(run).groups.predicted(found.predictions.cluster) if is_run(run) else {}


def _short_table(columns: "dict[str, Column]") -> list[str]:
    """The first images, and the size of each group, for a terminal."""
    numbers = [int(number) for number in columns.get("group", columns["cluster"])]
    names = columns.get("name", [""] * len(numbers))
    groups = [
        "no group" if number < 0 else f"{number} {name}" if name else f"group {number}"
        for number, name in zip(numbers, names, strict=True)
    ]
    first = list(zip(columns["path"], groups, columns["chance"], columns["unlike"], strict=True))[:SHOWN]
    lines = [f"{'image':<28}  {'group':<20}{'chance':>8}"]
    for path, group, chance, unlike in first:
        shown = path if len(path) <= 28 else f"...{path[-25:]}"
        lines.append(f"{shown:<28}  {group[:20]:<20}{chance:>8.0%}{'  unlike' if unlike else ''}")
    if len(groups) > SHOWN:
        lines.append(f"and {len(groups) - SHOWN:,} more")
    lines += ["", f"{'group':<20}{'images':>8}"]
    sizes = Counter(sorted(zip(numbers, groups, strict=True)))
    lines += [f"{group[:20]:<20}{count:>8,}" for (_, group), count in sizes.items()]
    return [*lines, "", "For the whole table, add --out FILE.csv or redirect the output."]


def _print_summary(found: "Assessment", out: Path | None) -> None:
    """On stderr, so that the table can be piped."""
    images, predictions = len(found.paths), found.predictions
    lines = [
        f"images     {images:,}{f', saved to {out}' if out else ''}",
        f"reliable   {predictions.reliable.sum():,}",
        f"unlike     {predictions.unlike.sum():,} (unlike anything seen in training)",
    ]
    lines += [f"problem    {problem.path}: {problem.reason}" for problem in found.problems[:10]]
    if len(found.problems) > 10:
        lines.append(f"           and {len(found.problems) - 10:,} more unreadable files")
    print("\n".join(lines), file=sys.stderr)
