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
    """The columns of `labels.parquet` and `labels.csv`, in this order; rows in the order of `images.parquet`."""

    path: list[str]
    cluster: NDArray[np.int32]  # (N,) 0 .. K-1
    probability: NDArray[np.float32]  # (N,) of that cluster
    margin: NDArray[np.float32]  # (N,) probability minus that of the next best cluster
    reliability: NDArray[np.float32]  # (N,) r_i: share of the nearest images that are in the same cluster
    reliable: NDArray[np.bool_]  # (N,) r_i > threshold
    nearest_other_cluster: NDArray[np.int32]  # (N,) the next best cluster
    prototype_rank: NDArray[np.int32]  # (N,) rank by closeness to the center of its cluster; 0 is closest

    def rows(self, chosen: NDArray[np.int64]) -> "Labels":
        """Some rows, in the order given."""
        return Labels._make([[self.path[row] for row in chosen], *(column[chosen] for column in self[1:])])


def write_labels(folder: Path, labels: Labels) -> None:
    """Write both files; the parquet file last, since its presence means that both exist."""
    write_table(folder / LABELS_CSV.name, labels._asdict())
    write_table(folder / LABELS.name, labels._asdict())


def read_labels(folder: Path) -> Labels:
    """The labels of a finished run."""
    path = folder / LABELS.name
    if not path.exists():
        raise UserError(f"{folder} has no labels yet; finish it with: spice resume {folder}")
    try:
        with path.open("rb") as file:
            table = pq.read_table(file, columns=list(Labels._fields))
        columns = [table.column(name).to_numpy().copy() for name in Labels._fields[1:]]  # Arrow's own are read-only
        return Labels(table.column("path").to_pylist(), *columns)
    except (OSError, KeyError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"cannot read {path} ({reason}); delete it, then: spice resume RUN") from error
