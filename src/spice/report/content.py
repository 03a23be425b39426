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
from pydantic import JsonValue

from spice.report.chosen import Chosen, choose
from spice.report.pictures import Sheets, read_sheets
from spice.report.verdict import Verdict, neighbor_votes, verdicts
from spice.runs import Account, Labels, Manifest, account, read_labels, read_manifest
from spice.runs.artifacts import IMAGES, KMEANS, MAP, NEIGHBORS, PICTURES, PROBLEMS
from spice.runs.outcomes import HeadsOutcome, JointOutcome, Scores, read_heads, read_joint, read_scores

# Rows of tables that may be as long as the collection; the files of the run hold them whole.
LONGEST_TABLE = 200


class Table(NamedTuple):
    """The first rows of a table, and how many it has."""

    rows: list[tuple[str, ...]]
    length: int


class Content(NamedTuple):
    """Everything, before it is put into words."""

    manifest: Manifest
    account: Account
    labels: Labels
    chosen: list[Chosen]
    verdicts: list[Verdict]
    heads: HeadsOutcome | None
    joint: JointOutcome | None
    scores: Scores | None
    points: NDArray[np.float32] | None  # (N, 2)
    pictures: Path
    sheets: Sheets | None
    problems: Table
    copies: Table

    def figure(self, step: str, name: str) -> JsonValue:
        return self.account.figures.get(step, {}).get(name)


def read_content(folder: Path) -> Content:
    """The content of the finished run in `folder`."""
    manifest, found, labels = read_manifest(folder), account(folder), read_labels(folder)
    clusters = len(found.clusters)
    asked = int(str(found.figures["labels"]["neighbors"]))
    votes = neighbor_votes(labels, np.load(folder / NEIGHBORS.name, mmap_mode="r"), clusters, asked=asked)
    points = folder / MAP.name
    return Content(
        manifest=manifest,
        account=found,
        labels=labels,
        chosen=choose(labels, clusters),
        verdicts=verdicts(labels, votes, np.load(folder / KMEANS.name), _agreement(found)),
        heads=read_heads(folder),
        joint=read_joint(folder),
        scores=read_scores(folder),
        points=np.load(points) if points.exists() else None,
        pictures=folder / PICTURES.name,
        sheets=read_sheets(folder / PICTURES.name),
        problems=_problems(folder / PROBLEMS.name),
        copies=_copies(folder / IMAGES.name),
    )


def _agreement(found: Account) -> list[float] | None:
    """Of the heads with each cluster, (K,); None where there is one head."""
    values = found.figures["labels"].get("agreement")
    return [float(str(value)) for value in values] if isinstance(values, list) else None


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
