"""`spice why`: why an image is in its group, and how far to trust that."""

import math
from typing import TYPE_CHECKING, Annotated

import typer

from spice.cli.help import examples
from spice.cli.options import Json, RunArgument

if TYPE_CHECKING:
    from spice.runs.explain_image import ImageExplanation

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
    from spice.runs.explain_image import explain_image

    found = explain_image(run, image)
    print(found.model_dump_json(indent=2) if as_json else "\n".join(_lines(found)))


def _lines(found: "ImageExplanation") -> list[str]:
    lines = [found.path, *_groups(found), f"reliable   {_verdict(found)}"]
    if found.others:
        votes = ", ".join(f"{count} in group {cluster}" for cluster, count in list(found.others.items())[:5])
        lines.append(f"           the others: {votes}")
    rank = f"{found.prototype_rank + 1:,} of {found.cluster_size:,}"
    lines.append(f"typical    rank {rank} in group {found.cluster} (1 is the most typical image)")
    confidences = (f"group {cluster} {value:.3f}" for cluster, value in found.confidences.items())
    lines.append(f"confidence {', '.join(confidences)} (the head's softmax, often too high)")
    if found.outlier:
        lines.append("outlier    unlike all other images in this run")
    if found.duplicate_of is not None and found.duplicate_of not in found.copies:
        lines.append(f"duplicate  nearly the same as {found.duplicate_of}")
    lines += [f"copy       {name}" for name in found.copies]
    if found.nearest:
        lines.append("nearest    similarity, group and name of the most similar images:")
    for near in found.nearest:
        group = "no group" if near.group < 0 else f"group {near.group}"
        lines.append(f"           {near.similarity:.3f}  {group}  {near.path}")
    return lines


def _groups(found: "ImageExplanation") -> list[str]:
    """The group after edits and its chance; also the predicted group if edits changed something."""
    group = "none" if found.group < 0 else f"{found.group} ({found.name})" if found.name else str(found.group)
    lines = [f"group      {group}{', set by hand' if found.by_person else ''}"]
    if found.group >= 0:
        lines.append(f"chance     {chance_in_words(found.chance)} that this is the right group")
    return [*lines, f"predicted  {found.cluster}"] if _edited(found) else lines


def _edited(found: "ImageExplanation") -> bool:
    return found.group != found.cluster or bool(found.name) or found.by_person


def chance_in_words(chance: float) -> str:
    """`88%`; never `100%` or `0%`, because no chance is certain."""
    return "over 99%" if chance > 0.994 else "under 1%" if chance < 0.006 else f"{chance:.0%}"


def _verdict(found: "ImageExplanation") -> str:
    predicted = "predicted in" if _edited(found) else "in"
    agreeing = f"{found.agreeing} of its {found.neighbors} nearest images are {predicted} group {found.cluster}"
    least = math.floor(found.threshold * found.neighbors) + 1
    return f"yes: {agreeing}" if found.reliable else f"no: {agreeing}; reliable means at least {least}"
