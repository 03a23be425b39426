"""`spice check`: check a sample of images by hand to measure the accuracy of all of them."""

import json
import sys
import webbrowser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from spice.cli.help import examples
from spice.cli.options import Json, RunArgument
from spice.cli.running import editing
from spice.wording import quoted

if TYPE_CHECKING:
    from spice.runs import Result
    from spice.runs.checks import Question, Summary
    from spice.runs.edits import Answer

EXAMPLES = examples(
    "spice check photos.spice  # 50 images, one key each; stop and resume any time",
    "spice check photos.spice --images 100 --keep 0.98",
    "spice check photos.spice --summary  # results so far",
)

PAGE, IMAGES = "check.html", 50
KEYS: "dict[str, Answer]" = {"y": "yes", "n": "no", "u": "unsure"}
BACK, QUIT = "b", "q"


def command(
    run: RunArgument,
    *,
    images: Annotated[int, typer.Option(metavar="N", min=2, help="How many images to check in total.")] = IMAGES,
    keep: Annotated[
        float, typer.Option(metavar="SHARE", min=0.5, max=0.999, help="Accuracy that the kept images should have.")
    ] = 0.95,
    only_summary: Annotated[bool, typer.Option("--summary", help="Print the results so far without asking.")] = False,
    as_json: Json = False,
) -> None:
    """Check randomly drawn images, one key each, to estimate the accuracy of all images and decide which to keep.

    The browser shows each image beside typical images of its group. Answers are saved in the run folder.
    """
    from spice.runs import open_result

    result = open_result(run)
    if not only_summary and not as_json:
        with editing(run):
            _ask(result, images)
    _show_summary(result, keep, as_json=as_json)


def _ask(result: "Result", images: int) -> None:
    from spice.runs.checks import Checks

    asked = Checks(result).questions(images)
    if not asked:
        print(f"{images:,} images are already checked; to check more: --images {2 * images}\n")
        return
    page = _write_page(result, asked)
    if sys.stdin.isatty():
        webbrowser.open(page.absolute().as_uri())
    print(f"pictures   {page.absolute().as_uri()}")
    print("keys       y: right group   n: wrong group   u: unsure   b: back   q: stop and resume later\n")
    _answers(result.run, asked)
    print()


def _write_page(result: "Result", asked: "list[Question]") -> Path:
    from spice.data.originals import originals
    from spice.report.check_page import write_check_page

    labels, page = result.labels, result.run / PAGE
    rows = sorted({row for question in asked for row in (question.row, *question.centers)})
    with TemporaryDirectory(prefix="spice-") as scratch:
        names = [labels.path[row] for row in rows]
        files = originals(result.manifest.source, names, run=result.run, extract_to=Path(scratch))
        write_check_page(page, asked, dict(zip(rows, files, strict=True)), title=result.run.name)
    return page


def _answers(run: Path, asked: "list[Question]") -> None:
    from spice.runs.checks import record, undo_answer

    place = 0
    while place < len(asked):
        question = asked[place]
        print(f"{place + 1:>3} of {len(asked)}  {question.path}  in {question.name}? ", end="", flush=True)
        key = _key()
        if key == QUIT:
            print("stopped")
            return
        if key in KEYS:
            print(KEYS[key])
            record(run, question.row, KEYS[key])
            place += 1
        elif key == BACK and place > 0 and undo_answer(run) is not None:
            print("back")
            place -= 1
        else:
            print(f"press {', '.join([*KEYS, BACK, QUIT])}")


def _key() -> str:
    """One key from a terminal, or one letter from a pipe; the end of the pipe means quit."""
    if sys.stdin.isatty():
        return typer.getchar().lower()
    letter = sys.stdin.read(1)
    while letter.isspace():
        letter = sys.stdin.read(1)
    return letter.lower() or QUIT


def _show_summary(result: "Result", keep: float, *, as_json: bool) -> None:
    from spice.runs.checks import Checks

    found = Checks(result).summary(target=keep)
    if as_json:
        print(json.dumps(_as_json(found), indent=2))
    else:
        print("\n".join(_lines(found, result)))


def _as_json(found: "Summary") -> dict[str, object]:
    return {
        "yes": found.yes,
        "no": found.no,
        "unsure": found.unsure,
        "accuracy": found.accuracy and found.accuracy._asdict(),
        "reliable": found.reliable and found.reliable._asdict(),
        "keep": found.keep._asdict(),
        "groups": {str(group): estimate._asdict() for group, estimate in found.groups.items()},
    }


def _lines(found: "Summary", result: "Result") -> list[str]:
    unsure = f"; {found.unsure} unsure (not counted)" if found.unsure else ""
    lines = [f"answers    {found.answers}: {found.yes} right, {found.no} wrong{unsure}"]
    if found.accuracy is None:
        return [*lines, f"next       spice check {quoted(result.run)}  # needs at least 2 answers"]
    lines.append(f"accuracy   {found.accuracy.words} of all images are right")
    if found.reliable is not None:
        lines.append(f"reliable   {found.reliable.words} of the reliable images are right")
    names = result.reread().groups
    lines += [f"group      {part.words} of {names.name(group)}" for group, part in found.groups.items()]
    return [*lines, f"keep       {found.promise}", *_next(found, result.run)]


def _next(found: "Summary", run: Path) -> list[str]:
    from spice.trust.check import KEEP

    keep = "" if found.keep.target == KEEP else f" --keep {found.keep.target:g}"
    if found.keep.threshold is not None:
        return [f"next       spice export {quoted(run)} kept --as folders --kept{keep}  # export these images"]
    if found.answers < found.keep.needed:
        images = max(IMAGES, found.keep.needed + found.unsure)
        return [f"next       spice check {quoted(run)} --images {images}{keep}  # continue"]
    return [] if found.lower is None else [f"next       spice check {quoted(run)} --keep {found.lower:g}"]
