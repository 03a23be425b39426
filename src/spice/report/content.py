"""Everything that the report shows, read from the files of a run.

Shapes: N images, K clusters, S neighbors.
"""

import csv
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from spice.arrays import open_array
from spice.errors import UserError
from spice.report.card_images import CardImages, choose_images
from spice.report.image_flags import ImageFlagsSection, image_flags_section
from spice.report.pictures import Sheets, as_jpeg, data_url, read_sheets
from spice.report.verdict import Evidence, Verdict, verdicts
from spice.runs import Labels, Result, RunSummary, summarize
from spice.runs.artifacts import IMAGES, MAP, PICTURES, PROBLEMS, TRUTH
from spice.runs.checks import Checks, Summary
from spice.runs.groups import unedited
from spice.runs.suggested_names import read_words, suggest_names
from spice.tables import read_parquet
from spice.trust.evidence import neighbor_votes, two_parts
from spice.trust.grade import nearest_votes
from spice.wording import quoted

# Rows shown of tables that can be as long as the collection. The whole tables are in the run folder.
LONGEST_TABLE = 200


class Table(NamedTuple):
    """The first rows of a table."""

    rows: list[tuple[str, ...]]
    length: int  # of the whole table


class ClusterName(NamedTuple):
    """The name that a person gave to a cluster's group, or a guess."""

    number: int
    given: str  # empty if there is none
    guess: str

    @property
    def title(self) -> str:
        return self.given or f"Group {self.number}"

    @property
    def guessed(self) -> str:
        """The same, with a guess for a group without a name."""
        return f"{self.guess}?" if self.guess else self.title


class Content(NamedTuple):
    """Everything that the report shows."""

    result: Result
    summary: RunSummary
    labels: Labels
    card_images: list[CardImages]
    verdicts: list[Verdict]
    points: NDArray[np.float32] | None  # (N, 2)
    pictures: Path  # a folder, which may be missing
    sheets: Sheets | None
    problems: Table
    copies: Table
    image_flags: ImageFlagsSection
    check: Summary | None  # of a check by hand; None if there are no answers
    truth: NDArray[np.int32] | None  # (N,) true class (an index of `result.scores.classes`) or -1; only for figures
    names: list[ClusterName]  # (K,)

    @property
    def mean_chance(self) -> float:
        """An estimate of the accuracy, without labels."""
        return float(self.labels.chance.mean(dtype=np.float64))

    def small_picture(self, row: int) -> Image.Image | None:
        """The small picture of an image; None if the report has none."""
        return None if self.sheets is None else self.sheets.picture(self.pictures, row)

    def tile(self, row: int) -> str | None:
        """The same as a data URL."""
        picture = self.small_picture(row)
        return None if picture is None else data_url(as_jpeg(picture, 80))


def read_content(result: Result) -> Content:
    """The content of a finished result."""
    summary, answer, checks = summarize(result), result.answer, Checks(result)
    labels = result.labels._replace(chance=checks.chances)
    checked = checks.summary() if checks.answered else None
    pictures, drawn = result / PICTURES, result.records.get("pictures")
    if pictures.exists() and drawn is not None and drawn.is_damaged(pictures.parent, pictures.name):
        raise UserError(f"{pictures} is damaged; delete this folder, then: spice report {quoted(result.run)}")
    return Content(
        result=result,
        summary=summary,
        labels=labels,
        card_images=choose_images(labels, answer.clusters),
        verdicts=verdicts(labels, _evidence(result, checked)),
        points=open_array(result.need(MAP)) if (result / MAP).exists() else None,
        pictures=pictures,
        sheets=read_sheets(pictures),
        problems=_problems(result),
        copies=_copies(result.need(IMAGES)),
        image_flags=image_flags_section(result),
        check=checked,
        truth=_truth(result),
        names=_names(result),
    )


def _truth(result: Result) -> NDArray[np.int32] | None:
    """The true labels given to `spice evaluate`; None if there are none, or if they do not fit these images."""
    path = result / TRUTH
    if result.scores is None or not path.exists():
        return None
    try:
        truth: NDArray[np.int32] = np.load(path)
    except (OSError, ValueError):  # damaged, but not needed
        return None
    fits = truth.shape == (len(result.labels.path),) and int(truth.max()) < len(result.scores.classes)
    return truth if fits else None


def _names(result: Result) -> list[ClusterName]:
    """Merged clusters share a name; a cluster without a name gets a guess."""
    groups, guesses = result.groups, suggest_names(read_words(result), unedited(result.base))
    names = [groups.names.get(int(group), "") for group in groups.of_cluster]
    return [ClusterName(number, name, "" if name else guesses.get(number, "")) for number, name in enumerate(names)]


def _evidence(result: Result, checked: Summary | None) -> Evidence:
    labels, answer, neighbors = result.labels, result.answer, result.neighbors
    members = (np.flatnonzero(labels.cluster == number) for number in range(answer.clusters))
    return Evidence(
        votes=neighbor_votes(labels.cluster, neighbors[:, : answer.neighbors], answer.clusters),
        near=nearest_votes(labels.cluster, neighbors[:, : answer.neighbors], answer.clusters),
        overlap=answer.head_overlap,
        parts=[two_parts(rows, neighbors) for rows in members],
        checked=checked.groups if checked and not result.groups.touched else {},
    )


def _problems(result: Result) -> Table:
    if not (result / PROBLEMS).exists():
        return Table([], 0)
    with result.need(PROBLEMS).open(newline="", encoding="utf-8") as file:
        rows: list[tuple[str, ...]] = [(row["path"], row["reason"], row["detail"]) for row in csv.DictReader(file)]
    return Table(rows[:LONGEST_TABLE], len(rows))


def _copies(path: Path) -> Table:
    """Each image that has exact copies, with its copies."""
    table = read_parquet(path, ["path", "copy_of"])
    names = table.column("path").to_pylist()
    groups: defaultdict[int, list[str]] = defaultdict(list)
    for name, original in zip(names, table.column("copy_of").to_pylist(), strict=True):
        if original is not None:
            groups[original].append(name)
    rows = [(names[original], *copies) for original, copies in groups.items()]
    return Table(rows[:LONGEST_TABLE], len(rows))
