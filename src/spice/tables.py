"""A table as csv or parquet, depending on the file name."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spice.errors import UserError
from spice.files import write_parquet_file, written_atomically

Column = list[str] | NDArray[Any]
ENDINGS = (".csv", ".parquet")


def write_table(path: Path, columns: Mapping[str, Column]) -> None:
    """Write the columns atomically."""
    refuse_other_ending(path)
    if path.suffix == ".parquet":
        write_parquet_file(path, arrow_table(columns))
        return
    with written_atomically(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as text:
        write_csv(text, columns)


def arrow_table(columns: Mapping[str, Column]) -> pa.Table:
    """The columns as pyarrow has them."""
    return pa.table({name: pa.array(column) for name, column in columns.items()})


def rows_of(column: Column, rows: NDArray[np.int64]) -> Column:
    """Some rows of a column, in the order given."""
    return [column[row] for row in rows.tolist()] if isinstance(column, list) else column[rows]


def refuse_other_ending(path: Path) -> None:
    """Refuse a name that does not say whether to write csv or parquet."""
    if path.suffix not in ENDINGS:
        raise UserError(f"{path} must end in {' or '.join(ENDINGS)}")


def write_csv(file: TextIO, columns: Mapping[str, Column]) -> None:
    """As text: six decimal places, 1 and 0 for true and false, names quoted where necessary."""
    # Before 3.13, Python does not quote "\r", as in macOS's `Icon\r` files, where a reader ends the line.
    quote_all = any("\r" in text for column in columns.values() if isinstance(column, list) for text in column)
    rows = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL)
    rows.writerow(columns)
    rows.writerows(zip(*(_texts(column) for column in columns.values()), strict=True))


def _texts(column: Column) -> list[str]:
    if isinstance(column, list):
        return column
    if column.dtype.kind == "f":
        return [f"{value:.6f}" for value in column.tolist()]
    return [str(int(value)) for value in column.tolist()]
