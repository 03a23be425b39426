"""`spice outliers` and `spice duplicates`: images unlike all others, and near-duplicates."""

import json
from typing import Annotated

import typer

from spice.cli.help import examples
from spice.cli.options import Json, RunArgument
from spice.wording import counted

OUTLIERS_EXAMPLES = examples("spice outliers photos.spice  # most unusual first", "spice outliers photos.spice --json")
DUPLICATES_EXAMPLES = examples(
    "spice duplicates photos.spice  # each image with its near-duplicates",
    "spice duplicates photos.spice --threshold 0.98  # almost identical copies only",
)


def outliers(run: RunArgument, as_json: Json = False) -> None:
    """List outliers: images that are unusually far from their five nearest images (Tukey's rule)."""
    from spice.runs import open_result
    from spice.runs.image_flags import outliers_of

    result = open_result(run)
    found, labels = outliers_of(result), result.labels
    rows = found.farthest().tolist()
    if as_json:
        plain = [{"path": labels.path[row], "distance": float(found.distance[row])} for row in rows]
        print(json.dumps(plain, indent=2))
        return
    unit = "; the number is the distance to their nearest images" if rows else ""
    print(f"outliers   {len(rows):,} of {counted(len(labels.path), 'image')}{unit}")
    for row in rows:
        print(f"{found.distance[row]:.3f}      {labels.path[row]}")


def duplicates(
    run: RunArgument,
    *,
    threshold: Annotated[
        float, typer.Option(metavar="N", min=0.5, max=1.0, help="Minimum pixel similarity; 1 means identical.")
    ] = 0.9,
    as_json: Json = False,
) -> None:
    """List near-duplicates: copies that were resized, compressed, cropped or mirrored.

    Nothing is deleted. The largest image of each set is listed first.
    """
    from spice.runs import open_result
    from spice.runs.image_flags import duplicates_of

    result = open_result(run)
    path, sets = result.labels.path, duplicates_of(result, threshold=threshold)
    if as_json:
        plain = [
            {"path": path[row], "copies": dict(zip((path[copy] for copy in copies), likeness, strict=True))}
            for row, copies, likeness in sets
        ]
        print(json.dumps(plain, indent=2))
        return
    count = sum(len(found.copies) for found in sets)
    if not sets:
        print(f"duplicates none found among {counted(len(path), 'image')}")
        return
    copies = "1 near-duplicate" if count == 1 else f"{count:,} near-duplicates"
    print(f"duplicates {copies} of {counted(len(sets), 'image')}; the number is the similarity")
    for found in sets:
        print(path[found.row])
        for row, similarity in zip(found.copies, found.likeness, strict=True):
            print(f"  {similarity:.3f}    {path[row]}")
