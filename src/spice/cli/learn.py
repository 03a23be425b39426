"""`spice learn`: train a head on your corrections."""

from typing import TYPE_CHECKING, Annotated

import typer

from spice.cli.help import examples
from spice.cli.labels import Labels, Split, add_labels
from spice.cli.options import Device, RunArgument
from spice.cli.running import confirmed, editing, show_progress
from spice.wording import counted, listed, quoted

if TYPE_CHECKING:
    from spice.pipeline.learn import Proposal

EXAMPLES = examples(
    "spice learn photos.spice  # show which images would move, then ask",
    "spice learn photos.spice --labels some.csv --yes  # a few labels are enough",
    "spice learn photos.spice --yes  # accept without asking",
)
SHOWN = 12  # pairs of groups between which images move


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
    if not yes and not confirmed("Accept?" if len(proposal.moved) else "Update the model for new images?"):
        print(f"nothing changed; accept with: spice learn {quoted(run)} --yes")
        return
    with editing(run):
        accept(proposal)
    print(f"accepted; undo with: spice undo {quoted(run)}")


def _lines(proposal: "Proposal") -> list[str]:
    from spice.runs import open_result

    corrections, before, moved = proposal.corrections, proposal.before, proposal.moved
    placed, pairs = len(corrections.fixed), len(corrections.same) + len(corrections.different)
    sources = [f"{counted(placed, 'image')} you placed"] if placed else []
    sources += [counted(pairs, "pair")] if pairs else []
    sources += ["typical images of each group"]
    lines = [f"learned    {len(corrections.numbers) - len(corrections.aside_groups)} groups, from {listed(sources)}"]
    if not len(moved):
        return [*lines, "moves      no images; only the model for new images would change"]
    lines.append(f"moves      {len(moved):,} of {len(before.group):,} images:")
    paths = open_result(proposal.run).labels.path
    examples_by_move: dict[tuple[int, int], list[str]] = {}
    for row in moved.tolist():
        move = int(before.group[row]), int(proposal.group[row])
        examples_by_move.setdefault(move, []).append(paths[row])
    moves = sorted(examples_by_move.items(), key=lambda item: -len(item[1]))
    for (old, new), found in moves[:SHOWN]:
        lines.append(f"  {len(found):>7,}  {before.name(old)} -> {before.name(new)}, such as {found[0]}")
    if len(moves) > SHOWN:
        lines.append(f"           and {len(moves) - SHOWN} more")
    return lines
