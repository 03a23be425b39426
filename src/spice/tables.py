"""Tables as csv or parquet, by the file name's ending; large ones as a folder of parquet files."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spice.errors import UserError
from spice.files import folder_written_atomically, remove, written_atomically

Column = list[str] | NDArray[Any]
ENDINGS = (".csv", ".parquet")
ROWS_PER_FILE = 1_000_000  # a million images take about 100 MB


def write_table(path: Path, columns: Mapping[str, Column]) -> None:
    """Write the columns atomically."""
    refuse_other_ending(path)
    if path.suffix == ".parquet":
        _write_parquet_file(path, arrow_table(columns))
        return
    with written_atomically(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as text:
        write_csv(text, columns)


def arrow_table(columns: Mapping[str, Column]) -> pa.Table:
    """The columns as a pyarrow table."""
    return pa.table({name: pa.array(column) for name, column in columns.items()})


def rows_of(column: Column, rows: NDArray[np.int64]) -> Column:
    """Some rows of a column, in the order given."""
    return [column[row] for row in rows.tolist()] if isinstance(column, list) else column[rows]


def refuse_other_ending(path: Path) -> None:
    """Refuse a file name that ends in neither .csv nor .parquet."""
    if path.suffix not in ENDINGS:
        raise UserError(f"{path} must end in {' or '.join(ENDINGS)}")


def write_csv(file: TextIO, columns: Mapping[str, Column]) -> None:
    """As text: six decimal places, 1 and 0 for true and false, names quoted where necessary."""
    # Before 3.13, Python does not quote "\r", as in macOS's `Icon\r` files, where a reader ends the line.
    quote_all = any("\r" in text for column in columns.values() if isinstance(column, list) for text in column)
    rows = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL)
    rows.writerow(columns)
    rows.writerows(zip(*(_texts(column) for column in columns.values()), strict=True))


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write a table atomically: a file, or a folder of files that pyarrow, pandas and polars read as one."""
    starts = range(0, table.num_rows, ROWS_PER_FILE)
    if path.is_dir() or len(starts) > 1:
        remove(path)  # a file cannot replace a folder
    if len(starts) <= 1:
        _write_parquet_file(path, table)
        return
    with folder_written_atomically(path) as folder:
        for number, start in enumerate(starts):
            _write_parquet_file(folder / f"part-{number:05d}.parquet", table.slice(start, ROWS_PER_FILE))


def _write_parquet_file(path: Path, table: pa.Table) -> None:
    """Write a table of any length as one file, atomically."""
    with written_atomically(path) as temporary, temporary.open("wb") as file:  # pyarrow's own errors name no file
        pq.write_table(table, file)


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Columns of a table that `write_parquet` wrote, or of another parquet file; None: all columns.

    Uses this thread alone: neither `pq.read_table` nor `pre_buffer`, which start threads even if told not to. A thread
    that still runs when Python exits aborts the process, and one that lacks the memory to start is awaited forever.
    """
    names = None if columns is None else list(columns)
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    try:
        return pa.concat_tables(_read_parquet_file(file, names) for file in files)
    except KeyError as error:  # a column that is missing, or there twice
        raise pa.ArrowInvalid(str(error.args[0])) from None
    except pa.ArrowMemoryError as error:  # not an ArrowException, by which callers recognize a damaged file
        raise MemoryError(str(error)) from None


def _read_parquet_file(path: Path, columns: list[str] | None) -> pa.Table:
    with path.open("rb") as opened:
        file = pq.ParquetFile(opened, pre_buffer=False, page_checksum_verification=True)
        table = file.read(columns=columns, use_threads=False)
    return table if columns is None else table.select(columns)


def _texts(column: Column) -> list[str]:
    if isinstance(column, list):
        return column
    if column.dtype.kind == "f":
        return [f"{value:.6f}" for value in column.tolist()]
    return [str(int(value)) for value in column.tolist()]
