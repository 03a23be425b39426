"""All that the page shows of a run, read from the run folder alone.

Shapes: N images, K clusters, S neighbors.
"""

import csv
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spice.report.chosen import Chosen, choose
from spice.report.pictures import Sheets, read_sheets
from spice.report.verdict import Verdict, neighbor_votes, verdicts
from spice.runs import Account, Labels, Result, account
from spice.runs.artifacts import IMAGES, KMEANS, MAP, PICTURES, PROBLEMS
from spice.runs.records import HeadsResult, JointResult
from spice.runs.scores import Scores

# Rows of tables that may be as long as the collection; the files of the run hold them whole.
LONGEST_TABLE = 200


class Table(NamedTuple):
    """The first rows of a table, and how many it has."""

    rows: list[tuple[str, ...]]
    length: int


class Content(NamedTuple):
    """Everything, before it is put into words."""

    result: Result
    account: Account
    labels: Labels
    chosen: list[Chosen]
    verdicts: list[Verdict]
    points: NDArray[np.float32] | None  # (N, 2)
    sheets: Sheets | None
    problems: Table
    copies: Table

    @property
    def heads(self) -> HeadsResult:
        return self.result.heads

    @property
    def joint(self) -> JointResult | None:
        return self.result.joint

    @property
    def scores(self) -> Scores | None:
        return self.result.scores

    @property
    def pictures(self) -> Path:
        return self.result / PICTURES


def read_content(result: Result) -> Content:
    """The content of a finished result."""
    found, labels, answer = account(result), result.labels, result.answer
    votes = neighbor_votes(labels, result.neighbors, answer.clusters, neighbors_counted=answer.neighbors)
    points = result / MAP
    return Content(
        result=result,
        account=found,
        labels=labels,
        chosen=choose(labels, answer.clusters),
        verdicts=verdicts(labels, votes, np.load(result.need(KMEANS)), answer.head_overlap),
        points=np.load(points) if points.exists() else None,
        sheets=read_sheets(result / PICTURES),
        problems=_problems(result / PROBLEMS),
        copies=_copies(result.need(IMAGES)),
    )


def _problems(path: Path) -> Table:
    if not path.exists():
        return Table([], 0)
    with path.open(newline="", encoding="utf-8") as file:
        rows: list[tuple[str, ...]] = [(row["path"], row["reason"], row["detail"]) for row in csv.DictReader(file)]
    return Table(rows[:LONGEST_TABLE], len(rows))


def _copies(path: Path) -> Table:
    """Each image that has exact copies, with its copies."""
    table = pq.read_table(path, columns=["path", "copy_of"])
    names, first = table.column("path").to_pylist(), table.column("copy_of").to_pylist()
    groups: defaultdict[int, list[str]] = defaultdict(list)
    for name, original in zip(names, first, strict=True):
        if original is not None:
            groups[original].append(name)
    rows = [(names[original], *copies) for original, copies in groups.items()]
    return Table(rows[:LONGEST_TABLE], len(rows))
