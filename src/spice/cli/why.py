"""`spice why`: why an image is in its group, and how far to trust that."""

from typing import TYPE_CHECKING, Annotated

import typer

from spice.cli.help import examples
from spice.cli.options import Json, RunArgument

if TYPE_CHECKING:
    from spice.runs.why import Why

EXAMPLES = examples(
    "spice why photos.spice photos/summer/beach.jpg",
    "spice why photos.spice beach.jpg  # a unique file name is enough",
)


def command(
    run: RunArgument,
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="Path or unique file name.")],
    as_json: Json = False,
) -> None:
    """Explain why an image is in its group: the chance that it is right, and its nearest images."""
    from spice.runs.why import why

    found = why(run, image)
    print(found.model_dump_json(indent=2) if as_json else "\n".join(_lines(found)))


def _lines(found: "Why") -> list[str]:
    edited = _edited(found)
    lines = [
        found.path,
        *edited,
        f"{'predicted' if edited else 'group':<11}{found.cluster}",
        f"chance     {found.chance:.2f} that {f'group {found.cluster}' if edited else 'this'} is the right group",
    ]
    lines.append(f"reliable   {_verdict(found)}")
    if found.others:
        votes = ", ".join(f"{count} in group {cluster}" for cluster, count in list(found.others.items())[:5])
        lines.append(f"           the others: {votes}")
    lines.append(
        f"typical    rank {found.prototype_rank + 1:,} of {found.cluster_size:,} (1 is the most typical image)"
    )
    sure = (f"{cluster} ({value:.3f})" for cluster, value in found.confidences.items())
    lines.append(f"confidence {', '.join(sure)} (the head's softmax, often overconfident)")
    if found.outlier:
        lines.append("outlier    unlike all other images in this run")
    if found.duplicate_of is not None and found.duplicate_of not in found.copies:
        lines.append(f"duplicate  nearly the same as {found.duplicate_of}")
    lines += [f"copy       {name}" for name in found.copies]
    for number, near in enumerate(found.nearest):
        lines.append(f"{'nearest' if number == 0 else '':<10} {near.similarity:.3f}  group {near.cluster}  {near.path}")
    return lines


def _edited(found: "Why") -> list[str]:
    """The group after edits, if they changed something."""
    if found.group == found.cluster and not found.name and not found.by_person:
        return []
    group = "none" if found.group < 0 else f"{found.group} ({found.name})" if found.name else str(found.group)
    return [f"group      {group}{', set by hand' if found.by_person else ''}"]


def _verdict(found: "Why") -> str:
    agreeing = f"{found.agreeing} of its {found.neighbors} nearest images are in group {found.cluster}"
    bar = f"reliable means more than {found.threshold * found.neighbors:g}"
    return f"yes: {agreeing}" if found.reliable else f"no: {agreeing}; {bar}"
