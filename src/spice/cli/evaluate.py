"""`spice evaluate`: score the groups against true labels. Only this, `bench` and `demo` read labels."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spice.cli.help import examples
from spice.cli.options import Json, RunArgument
from spice.wording import quoted

if TYPE_CHECKING:
    from spice.runs import Result
    from spice.runs.scores import Score, Scores

EXAMPLES = examples(
    "spice evaluate photos.spice --truth folders  # classes are folder names",
    "spice evaluate photos.spice --truth labels.csv  # columns path,label",
)


def command(
    run: RunArgument,
    *,
    truth: Annotated[str, typer.Option(help="`folders`, or a CSV file with columns path,label.")],
    as_json: Json = False,
) -> None:
    """Score the groups against true labels (ACC, NMI, ARI), with k-means for comparison.

    The scores are of the program's groups. If you have edited them, your groups are scored on a line of their own.
    """
    from spice.arrays import save_array
    from spice.evaluate import evaluate_run, from_csv, from_folders, true_classes
    from spice.files import write_text
    from spice.runs import open_result, writing
    from spice.runs.artifacts import SCORES, TRUTH

    result = open_result(run)
    paths = result.labels.path
    known = from_folders(paths) if truth == "folders" else from_csv(Path(truth), paths)
    found = evaluate_run(result, known)
    text = found.model_dump_json(indent=2)
    print(text if as_json else _table(found))
    with writing(run):
        save_array(result / TRUTH, true_classes(known, len(paths)))
        write_text(result / SCORES, text + "\n")
    _add_to_report(result)


def _add_to_report(result: "Result") -> None:
    """Add the scores to the report. They are already printed and saved, so a failure here is only a warning."""
    from spice.report import rewrite_report

    try:
        rewrite_report(result)
    except Exception as error:  # noqa: BLE001 - the scores are saved in any case
        retry = f"spice report {quoted(result.run)}"
        print(f"spice: warning: could not write the report ({error}); try: {retry}", file=sys.stderr)


def _table(found: "Scores") -> str:
    lines = [f"{'':<24}{'images':>8}{'ACC':>8}{'NMI':>8}{'ARI':>8}", _line("all images", found.spice)]
    lines.append(_line("reliable images", found.reliable))
    if found.second_stage is not None:
        lines.append(_line("before joint training", found.second_stage))
    lines.append(_line("k-means, all images", found.kmeans))
    if found.edited is not None:
        lines.append(_line("after your edits", found.edited))
    lines.append("ACC matches groups to classes one to one")
    lines.append("NMI is normalized by the geometric mean, as in the paper's tables")
    if found.edited is not None:
        lines.append("All lines but the last score the program's groups, before your edits")
    if found.without_label:
        lines.append(f"{found.without_label:,} images have no true label and are not counted")
    return "\n".join(lines)


def _line(title: str, score: "Score") -> str:
    figures = (f"{'-':>8}" if value is None else f"{value:8.3f}" for value in (score.acc, score.nmi, score.ari))
    return f"{title:<24}{score.images:>8,}{''.join(figures)}"
