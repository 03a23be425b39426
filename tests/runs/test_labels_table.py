"""The labels as parquet and csv."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spice import tables
from spice.errors import UserError
from spice.runs import Labels, read_labels, write_labels
from spice.runs import labels as table
from spice.tables import read_parquet

COLUMNS = [
    "path",
    "cluster",
    "chance",
    "confidence",
    "margin",
    "reliability",
    "reliable",
    "nearest_other_cluster",
    "prototype_rank",
    "outlier",
    "duplicate_of",
]


def test_labels_are_read_as_they_were_written(tmp_path: Path, labels: Labels) -> None:
    write_labels(tmp_path, labels)
    again = read_labels(tmp_path)
    assert again.path == labels.path
    for written, read in zip(labels[1:], again[1:], strict=True):
        np.testing.assert_array_equal(written, read)
        assert np.asarray(written).dtype == np.asarray(read).dtype


def test_both_files_have_the_promised_columns(tmp_path: Path, labels: Labels) -> None:
    write_labels(tmp_path, labels)
    assert pq.read_table(tmp_path / "labels.parquet").column_names == COLUMNS
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [*COLUMNS, "group", "name", "by_person"]
    assert sorted(row["path"] for row in rows) == sorted(labels.path)  # quotes, line breaks and all
    by_path = {row["path"]: row for row in rows}
    assert by_path["cats/b.png"]["confidence"] == "0.800000"
    assert by_path["cats/b.png"]["chance"] == "0.700000"
    assert [by_path[path]["reliable"] for path in labels.path] == ["1", "0", "1", "0", "1", "0"]
    assert [by_path[path]["outlier"] for path in labels.path] == ["0", "0", "0", "1", "0", "0"]
    assert [by_path[path]["duplicate_of"] for path in labels.path] == labels.duplicate_of


def test_the_csv_file_is_sorted_by_path_and_the_parquet_file_is_not(tmp_path: Path, labels: Labels) -> None:
    write_labels(tmp_path, labels)
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8") as file:
        assert [row["path"] for row in csv.DictReader(file)] == sorted(labels.path) != labels.path
    assert pq.read_table(tmp_path / "labels.parquet").column("path").to_pylist() == labels.path


def test_the_same_labels_are_the_same_bytes(tmp_path: Path, labels: Labels) -> None:
    (tmp_path / "other").mkdir()
    write_labels(tmp_path, labels)
    write_labels(tmp_path / "other", labels)
    for name in ("labels.csv", "labels.parquet"):
        assert (tmp_path / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_some_rows_keep_all_columns_together(labels: Labels) -> None:
    chosen = labels.rows(np.array([4, 0]))
    assert chosen.path == [labels.path[4], labels.path[0]]
    for part, whole in zip(chosen[1:], labels[1:], strict=True):
        np.testing.assert_array_equal(part, np.asarray(whole)[[4, 0]])


def test_a_run_without_labels_says_how_to_finish_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no groups yet; finish it with: spice resume"):
        read_labels(tmp_path)


def test_a_process_that_read_a_table_ends_well(tmp_path: Path) -> None:
    pq.write_table(pa.table({"path": [f"{number}.png" for number in range(500)]}), tmp_path / "a.parquet")
    code = (
        "import sys; from pathlib import Path; from spice.tables import read_parquet; read_parquet(Path(sys.argv[1]))"
    )
    ended = [subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.parquet")], check=False) for _ in range(6)]
    assert [process.returncode for process in ended] == [0] * 6  # pyarrow's threads aborted most, at their end


NO_ROOM_FOR_A_THREAD = """
import re, resource, sys
from pathlib import Path
import pyarrow.dataset, pyarrow.parquet
from spice.tables import read_parquet

used = int(re.search(r"VmData:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10
resource.setrlimit(resource.RLIMIT_DATA, (used + (6 << 20), used + (6 << 20)))  # a thread's stack takes 8 MB
print(read_parquet(Path(sys.argv[1]), ["path"]).num_rows)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits as on Linux")
def test_a_table_is_read_where_no_thread_can_be_started(tmp_path: Path) -> None:
    pq.write_table(pa.table({"path": [f"{number}.png" for number in range(500)]}), tmp_path / "a.parquet")
    ended = subprocess.run(
        [sys.executable, "-c", NO_ROOM_FOR_A_THREAD, str(tmp_path / "a.parquet")],
        env=os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "500\n"), ended.stderr  # read_table waited for a thread, forever


@pytest.mark.parametrize(("names", "columns"), [(["path"], ["missing"]), (["path", "path"], ["path"])])
def test_a_column_that_is_not_there_once_is_an_error_of_the_file(
    tmp_path: Path, names: list[str], columns: list[str]
) -> None:
    pq.write_table(pa.table([pa.array(["a"])] * len(names), names=names), tmp_path / "a.parquet")
    with pytest.raises(pa.ArrowInvalid, match=columns[0]):
        read_parquet(tmp_path / "a.parquet", columns)


def test_columns_have_the_order_asked_for(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": [2], "c": [3]}), tmp_path / "a.parquet")
    assert read_parquet(tmp_path / "a.parquet", ["c", "a"]).column_names == ["c", "a"]


def test_too_little_memory_is_not_taken_for_a_damaged_table(
    tmp_path: Path, labels: Labels, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    write_labels(tmp_path, labels)
    monkeypatch.setattr(pq.ParquetFile, "read", fail)
    with pytest.raises(MemoryError):
        read_labels(tmp_path)


def test_of_a_large_collection_the_csv_file_is_left_out(
    tmp_path: Path, labels: Labels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "MOST_IN_CSV", len(labels.path) - 1)
    write_labels(tmp_path, labels)
    assert read_labels(tmp_path).path == labels.path
    assert not (tmp_path / "labels.csv").exists()
    monkeypatch.setattr(table, "MOST_IN_CSV", len(labels.path))
    write_labels(tmp_path, labels)
    assert (tmp_path / "labels.csv").exists()


def test_labels_of_very_many_images_are_a_folder_that_every_reader_takes_for_one_table(
    tmp_path: Path, labels: Labels, monkeypatch: pytest.MonkeyPatch
) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    write_labels(tmp_path, labels)
    whole = pq.read_table(tmp_path / "labels.parquet")
    monkeypatch.setattr(tables, "ROWS_PER_FILE", 4)
    write_labels(tmp_path, labels)  # replaces the file
    place = tmp_path / "labels.parquet"
    assert [path.name for path in sorted(place.iterdir())] == ["part-00000.parquet", "part-00001.parquet"]
    assert [pq.read_table(path).num_rows for path in sorted(place.iterdir())] == [4, 2]
    again = read_labels(tmp_path)
    assert again.path == labels.path
    for written, read in zip(labels[1:], again[1:], strict=True):
        np.testing.assert_array_equal(written, read)
    assert pq.read_table(place).equals(whole)
    assert pandas.read_parquet(place).to_dict("list") == whole.to_pydict()
    assert polars.read_parquet(place).to_dict(as_series=False) == whole.to_pydict()
    monkeypatch.setattr(tables, "ROWS_PER_FILE", 6)
    write_labels(tmp_path, labels)  # replaces the folder
    assert place.is_file()
    assert pq.read_table(place).equals(whole)


def test_a_folder_of_labels_without_a_part_is_refused(
    tmp_path: Path, labels: Labels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "ROWS_PER_FILE", 4)
    write_labels(tmp_path, labels)
    for part in (tmp_path / "labels.parquet").iterdir():
        part.unlink()
    with pytest.raises(UserError, match=r"cannot read .*labels.parquet"):
        read_labels(tmp_path)
