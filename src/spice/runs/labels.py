"""The labels of a run: one row per image, as parquet and as csv."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spice.errors import UserError
from spice.runs.artifacts import LABELS, LABELS_CSV
from spice.runs.table import write_table


class Labels(NamedTuple):
    """The columns of `labels.parquet` and `labels.csv`, in this order; rows in the order of `images.parquet`.

    The rows of `labels.csv` are sorted by path instead.
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
    duplicate_of: list[str]  # path of the image that it nearly repeats; empty for none

    def rows(self, chosen: NDArray[np.int64]) -> "Labels":
        """Some rows, in the order given."""
        return Labels._make(
            [column[row] for row in chosen] if isinstance(column, list) else column[chosen] for column in self
        )


def write_labels(folder: Path, labels: Labels) -> None:
    """Write both files; the parquet file last, since its presence means that both exist."""
    by_path = np.array(sorted(range(len(labels.path)), key=labels.path.__getitem__), dtype=np.int64)
    write_table(folder / LABELS_CSV.name, labels.rows(by_path)._asdict())
    write_table(folder / LABELS.name, labels._asdict())


def read_labels(folder: Path) -> Labels:
    """The labels of a finished run."""
    path = folder / LABELS.name
    if not path.exists():
        raise UserError(f"{folder} has no labels yet; finish it with: spice resume {folder}")
    try:
        with path.open("rb") as file:
            table = pq.read_table(file, columns=list(Labels._fields))
        return Labels._make(_column(table.column(name)) for name in Labels._fields)
    except (OSError, KeyError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"cannot read {path} ({reason}); delete it, then: spice resume RUN") from error


def _column(column: pa.ChunkedArray) -> list[str] | NDArray[np.generic]:
    # Arrow's own arrays are read-only.
    found: list[str] | NDArray[np.generic]
    found = column.to_pylist() if pa.types.is_string(column.type) else column.to_numpy().copy()
    return found
