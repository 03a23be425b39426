"""The labels of a run: one row per image, as parquet (the head's answer) and as csv (the same, with people's edits).

The csv of a large collection is written on request only (`spice export --as csv`), because every edit rewrites it.
`labels.parquet` of more than a million images is a folder of files, which is read as one table.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spice.errors import UserError
from spice.runs.artifacts import LABELS, LABELS_CSV
from spice.tables import Column, arrow_table, read_parquet, rows_of, write_parquet, write_table
from spice.wording import quoted

MOST_IN_CSV = 200_000  # images


class Labels(NamedTuple):
    """The columns of `labels.parquet`, in this order; rows in the order of `images.parquet`.

    `labels.csv` is sorted by path instead, and has three more columns, which show people's edits: `Groups.columns`.
    """

    path: list[str]
    cluster: NDArray[np.int32]  # (N,) 0 .. K-1
    chance: NDArray[np.float32]  # (N,) that this is the right cluster (`trust.chance`)
    confidence: NDArray[np.float32]  # (N,) the head's softmax for that cluster
    margin: NDArray[np.float32]  # (N,) confidence minus that of the next best cluster
    reliability: NDArray[np.float32]  # (N,) r_i: share of the nearest images that are in the same cluster
    reliable: NDArray[np.bool_]  # (N,) r_i > threshold
    nearest_other_cluster: NDArray[np.int32]  # (N,) the next best cluster
    prototype_rank: NDArray[np.int32]  # (N,) rank by closeness to the center of its cluster; 0 is closest
    outlier: NDArray[np.bool_]  # (N,) unlike all other images
    duplicate_of: list[str]  # path of the image that it nearly repeats (`trust.duplicates`); empty for none

    def rows(self, chosen: NDArray[np.int64]) -> "Labels":
        """Some rows, in the order given."""
        return Labels._make(rows_of(column, chosen) for column in self)


def write_labels(folder: Path, labels: Labels) -> None:
    """Write both files; the parquet last, since its presence means that both exist."""
    if len(labels.path) <= MOST_IN_CSV:
        write_labels_csv(folder / LABELS_CSV.name, labels, _no_edits(labels))
    write_parquet(folder / LABELS.name, arrow_table(labels._asdict()))


def write_labels_csv(path: Path, labels: Labels, edits: Mapping[str, Column]) -> None:
    """The labels and further columns as text, sorted by path."""
    by_path = np.array(sorted(range(len(labels.path)), key=labels.path.__getitem__), dtype=np.int64)
    columns = labels._asdict() | dict(edits)
    write_table(path, {name: rows_of(column, by_path) for name, column in columns.items()})


def _no_edits(labels: Labels) -> dict[str, Column]:
    images = len(labels.path)
    return {"group": labels.cluster, "name": [""] * images, "by_person": np.zeros(images, dtype=np.bool_)}


def read_labels(folder: Path) -> Labels:
    """The labels of a finished run."""
    path = folder / LABELS.name
    if not path.exists():
        raise UserError(f"{folder} has no groups yet; finish it with: spice resume {quoted(folder)}")
    try:
        table = read_parquet(path, Labels._fields)
        return Labels._make(_column(table.column(name)) for name in Labels._fields)
    except (OSError, KeyError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"cannot read {path} ({reason}); delete it, then run: spice resume RUN") from error


def _column(column: pa.ChunkedArray) -> list[str] | NDArray[np.generic]:
    # Arrow's own arrays are read-only.
    found: list[str] | NDArray[np.generic]
    found = column.to_pylist() if pa.types.is_string(column.type) else column.to_numpy().copy()
    return found
