"""The answer of a run: one row per image, as parquet and as csv."""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spice.errors import UserError
from spice.files import written_atomically
from spice.runs.artifacts import LABELS, LABELS_CSV


class Labels(NamedTuple):
    """The columns of `labels.parquet` and `labels.csv`, in this order; rows in the order of `images.parquet`."""

    path: list[str]
    cluster: NDArray[np.int32]  # (N,) 0 .. K-1
    probability: NDArray[np.float32]  # (N,) of that cluster
    margin: NDArray[np.float32]  # (N,) probability minus that of the next best cluster
    reliability: NDArray[np.float32]  # (N,) share of the nearest images that lie in the same cluster: r_i
    reliable: NDArray[np.bool_]  # (N,) r_i > threshold
    nearest_other_cluster: NDArray[np.int32]  # (N,) the next best cluster
    prototype_rank: NDArray[np.int32]  # (N,) place by nearness to the cluster's center among its images; 0 is nearest

    def rows(self, chosen: NDArray[np.int64]) -> "Labels":
        """Some rows, in the order given."""
        return Labels(
            [self.path[row] for row in chosen],
            self.cluster[chosen],
            self.probability[chosen],
            self.margin[chosen],
            self.reliability[chosen],
            self.reliable[chosen],
            self.nearest_other_cluster[chosen],
            self.prototype_rank[chosen],
        )


SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("cluster", pa.int32(), nullable=False),
        pa.field("probability", pa.float32(), nullable=False),
        pa.field("margin", pa.float32(), nullable=False),
        pa.field("reliability", pa.float32(), nullable=False),
        pa.field("reliable", pa.bool_(), nullable=False),
        pa.field("nearest_other_cluster", pa.int32(), nullable=False),
        pa.field("prototype_rank", pa.int32(), nullable=False),
    ]
)


def write_labels(folder: Path, labels: Labels) -> None:
    """Write both files; the parquet file last, since its presence says that both are there."""
    with written_atomically(folder / LABELS_CSV.name) as temporary:
        write_csv(temporary, labels)
    with written_atomically(folder / LABELS.name) as temporary:
        write_parquet(temporary, labels)


def read_labels(folder: Path) -> Labels:
    """The labels of a finished run."""
    path = folder / LABELS.name
    if not path.exists():
        raise UserError(f"{folder} has no labels yet; finish it with: spice resume {folder}")
    table = pq.read_table(path, schema=SCHEMA)
    columns = [table.column(field.name).to_numpy() for field in SCHEMA if field.name != "path"]
    return Labels(table.column("path").to_pylist(), *columns)


def write_parquet(path: Path, labels: Labels) -> None:
    """The table in its own types."""
    pq.write_table(pa.table([pa.array(column) for column in labels], schema=SCHEMA), path)


def write_csv(path: Path, labels: Labels) -> None:
    """The table as text: numbers to six places, true and false as 1 and 0, names quoted where they need it."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(Labels._fields)
        rows.writerows(zip(*(_texts(column) for column in labels), strict=True))


def _texts(column: list[str] | NDArray[np.generic]) -> list[str]:
    if isinstance(column, list):
        return column
    if column.dtype.kind == "f":
        return [f"{value:.6f}" for value in column.tolist()]
    return [str(int(value)) for value in column.tolist()]
