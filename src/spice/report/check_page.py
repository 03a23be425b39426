"""The page for a check by hand in the terminal: every image to judge, beside the most typical images of its group."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image, ImageOps

from spice.files import write_text
from spice.report.page import environment
from spice.report.pictures import as_jpeg, data_url
from spice.runs.checks import Question

LARGE, SMALL = 320, 128  # pixels on the longer side


def write_check_page(path: Path, questions: Sequence[Question], files: Mapping[int, Path], *, title: str) -> None:
    """Write one HTML file with all questions, numbered from 1; `files` are the images by row."""
    centers = {row for question in questions for row in question.centers}
    small = {row: _picture(files[row], SMALL) for row in sorted(centers)}
    asked = [(question, _picture(files[question.row], LARGE)) for question in questions]
    write_text(path, environment().get_template("check.html").render(asked=asked, small=small, title=title))


def _picture(path: Path, side: int) -> str:
    """As a data URL, upright."""
    with Image.open(path) as opened:
        opened.draft("RGB", (2 * side, 2 * side))
        upright = ImageOps.exif_transpose(opened).convert("RGB")
    upright.thumbnail((side, side))
    return data_url(as_jpeg(upright, 82))
