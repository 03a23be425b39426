"""`spice learn`: train a head on your corrections."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from spice.cli.help import examples
from spice.cli.labels import Labels, Split, add_labels
from spice.cli.options import Device, RunArgument
from spice.cli.running import confirmed, editing, show_progress
from spice.wording import counted, quoted

if TYPE_CHECKING:
    from spice.pipeline.learn import Proposal

EXAMPLES = examples(
    "spice learn photos.spice  # show which images would move, then ask",
    "spice learn photos.spice --labels some.csv --yes  # path,label: a few images are enough",
    "spice learn photos.spice --yes  # accept without asking; undo with: spice undo",
)
SHOWN = 12


def command(
    run: RunArgument,
    *,
    labels: Labels = None,
    split: Split = False,
    yes: Annotated[bool, typer.Option("--yes", help="Accept without asking.")] = False,
    device: Device = "auto",
) -> None:
    """Learn from your corrections (named groups, moved images, pairs) in seconds.

    Shows which images would move. Nothing changes until you accept, and images you placed yourself stay there.
    """
    from spice.pipeline.learn import accept, propose
    from spice.runs.folder import refuse_links_outside

    refuse_links_outside(run)
    if labels is not None:
        add_labels(run, labels, split=split)
    with show_progress() as progress:
        proposal = propose(run, device=device, progress=progress)
    for line in _lines(proposal):
        print(line)
    if not yes and not confirmed("Accept?"):
        print(f"nothing changed; accept with: spice learn {quoted(str(run))} --yes")
        return
    with editing(run):
        accept(proposal)
    print(f"accepted; undo with: spice undo {quoted(str(run))}")


def _lines(proposal: "Proposal") -> list[str]:
    from spice.runs import open_result

    lessons, before, moved = proposal.lessons, proposal.before, proposal.moved
    pairs, images = len(lessons.same) + len(lessons.different), len(before.group)
    marked = f", {counted(pairs, 'pair')}" if pairs else ""
    learned = len(lessons.numbers) - len(lessons.aside_groups)
    lines = [
        f"learned    {learned} groups, from {counted(len(lessons.fixed), 'image')} you placed{marked} "
        "and typical images of each group"
    ]
    if not len(moved):
        return [*lines, "moves      no images: the groups already agree with your corrections"]
    lines.append(f"moves      {len(moved):,} of {images:,} images:")
    ways = Counter((int(before.group[row]), int(proposal.group[row])) for row in moved)
    paths = open_result(proposal.run).labels.path
    example = {(int(before.group[row]), int(proposal.group[row])): paths[row] for row in reversed(moved.tolist())}
    for way, count in ways.most_common(SHOWN):
        lines.append(f"  {count:>7,}  {before.name(way[0])} -> {before.name(way[1])}, such as {example[way]}")
    if len(ways) > SHOWN:
        lines.append(f"           and {len(ways) - SHOWN} more")
    return lines
