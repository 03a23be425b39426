"""`spice why`: why an image is where it is, and how far to trust that."""

from typing import TYPE_CHECKING, Annotated

import typer

from spice.cli.help import examples
from spice.cli.running import Json, RunArgument

if TYPE_CHECKING:
    from spice.runs.why import Why

EXAMPLES = examples(
    "spice why photos.spice photos/summer/beach.jpg",
    "spice why photos.spice beach.jpg  # the name alone, where only one image has it",
)


def command(
    run: RunArgument,
    image: Annotated[str, typer.Argument(help="The image: its path, or its name where only one has it.")],
    as_json: Json = False,
) -> None:
    """Tell why an image is in its cluster, the chance that it is right, and what its neighbors say."""
    from spice.runs.why import why

    found = why(run, image)
    print(found.model_dump_json(indent=2) if as_json else "\n".join(_lines(found)))


def _lines(found: "Why") -> list[str]:
    lines = [
        found.path,
        *_edited(found),
        f"cluster    {found.cluster}",
        f"chance     {found.chance:.2f} that this is the right cluster",
    ]
    lines.append(f"reliable   {_verdict(found)}")
    if found.others:
        votes = ", ".join(f"{count} in cluster {cluster}" for cluster, count in list(found.others.items())[:5])
        lines.append(f"           of the others, {votes}")
    lines.append(f"typical    number {found.prototype_rank + 1:,} of {found.cluster_size:,}, from the most typical on")
    sure = (f"{cluster} ({value:.3f})" for cluster, value in found.confidences.items())
    lines.append(f"confidence {', '.join(sure)}: the head's softmax, which is often too sure")
    if found.outlier:
        lines.append("outlier    unlike all other images of the run")
    if found.duplicate_of is not None and found.duplicate_of not in found.copies:
        lines.append(f"duplicate  nearly the same as {found.duplicate_of}")
    lines += [f"copy       {name}" for name in found.copies]
    for number, near in enumerate(found.nearest):
        lines.append(
            f"{'nearest' if number == 0 else '':<10} {near.similarity:.3f}  cluster {near.cluster}  {near.path}"
        )
    return lines


def _edited(found: "Why") -> list[str]:
    """What people made of it, where they did."""
    if found.group == found.cluster and not found.name and not found.by_person:
        return []
    group = "none" if found.group < 0 else f"{found.group} ({found.name})" if found.name else str(found.group)
    return [f"group      {group}{', put there by a person' if found.by_person else ''}"]


def _verdict(found: "Why") -> str:
    agreeing = f"{found.agreeing} of its {found.neighbors} nearest images are in the same cluster"
    bar = f"more than {found.threshold * found.neighbors:g} make it reliable"
    return f"yes: {agreeing}" if found.reliable else f"no: {agreeing}; {bar}"
