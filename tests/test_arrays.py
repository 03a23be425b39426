"""Arrays in several files read as one; small arrays are ordinary files."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from spice import arrays
from spice.arrays import map_array, open_array, remove_array, reserve_array, save_array

PIECE = 64 << 10
on_posix = pytest.mark.skipif(os.name != "posix", reason="nothing is cut where files cannot be mapped as one")


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "PIECE_BYTES", PIECE)


def made(rows: int = 5000) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(rows, 7)).astype(np.float32)


def test_a_small_array_is_the_file_that_numpy_writes(tmp_path: Path) -> None:
    save_array(tmp_path / "ours.npy", made())
    np.save(tmp_path / "numpys.npy", made())
    assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "numpys.npy").read_bytes()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("ours")] == ["ours.npy"]


@on_posix
@pytest.mark.usefixtures("small_pieces")
def test_a_large_array_is_a_numpy_file_cut_into_pieces(tmp_path: Path) -> None:
    save_array(tmp_path / "large.npy", made())
    names = ["large.npy", "large.npy.001", "large.npy.002"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert all((tmp_path / name).stat().st_size <= PIECE for name in names)
    np.save(tmp_path / "whole.npy", made())
    joined = b"".join((tmp_path / name).read_bytes() for name in names)
    assert joined == (tmp_path / "whole.npy").read_bytes()


@on_posix
@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("mode", ["r", "c"])
def test_a_large_array_is_read_as_one(tmp_path: Path, mode: arrays.Mode) -> None:
    save_array(tmp_path / "large.npy", made())
    found = open_array(tmp_path / "large.npy", mode)
    np.testing.assert_array_equal(found, made())
    np.testing.assert_array_equal(found[[4999, 0, 2340]], made()[[4999, 0, 2340]])  # one row lies in two pieces
    assert found.flags.writeable == (mode == "c")


@on_posix
@pytest.mark.usefixtures("small_pieces")
def test_a_tensor_of_a_large_array_outlives_all_other_references_and_leaves_the_files_as_they_are(
    tmp_path: Path,
) -> None:
    save_array(tmp_path / "large.npy", made())
    tensor = torch.from_numpy(open_array(tmp_path / "large.npy", "c"))
    tensor += 1
    np.testing.assert_array_equal(tensor.numpy(), made() + 1)
    np.testing.assert_array_equal(open_array(tmp_path / "large.npy"), made())


@on_posix
@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("rows", [100, 5000])
def test_an_array_that_is_filled_in_place_is_complete_after_one_rename(tmp_path: Path, rows: int) -> None:
    path, first = tmp_path / "filled.npy", tmp_path / "first.partial"
    reserve_array(path, np.float32, (rows, 7), first=first)
    for half in (slice(0, rows // 2), slice(rows // 2, rows)):  # as after a kill
        table, flush = map_array(path, "r+", first=first)
        table[half] = made(rows)[half]
        flush()
        del table
        assert not path.exists()
    first.rename(path)
    np.testing.assert_array_equal(open_array(path), made(rows))


@on_posix
@pytest.mark.usefixtures("small_pieces")
def test_a_smaller_array_leaves_no_pieces_of_a_larger_one_behind(tmp_path: Path) -> None:
    path = tmp_path / "array.npy"
    save_array(path, made())
    save_array(path, made(2500))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["array.npy", "array.npy.001"]
    save_array(path, made(10))
    assert [file.name for file in tmp_path.iterdir()] == ["array.npy"]
    save_array(path, made())
    remove_array(path)
    assert not list(tmp_path.iterdir())


@on_posix
@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("number", [1, 2])
def test_a_missing_piece_is_reported(tmp_path: Path, number: int) -> None:
    path = tmp_path / "array.npy"
    save_array(path, made())
    arrays.piece(path, number).unlink()
    with pytest.raises(ValueError, match="is damaged"):
        open_array(path)


@on_posix
@pytest.mark.usefixtures("small_pieces")
def test_pieces_of_another_system_are_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_array(tmp_path / "large.npy", made())
    monkeypatch.setattr(arrays, "CAN_JOIN", False)
    np.testing.assert_array_equal(open_array(tmp_path / "large.npy"), made())
    with pytest.raises(ValueError, match="can only read"):
        open_array(tmp_path / "large.npy", "r+")


def test_old_files_larger_than_a_piece_are_still_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "old.npy", made())
    monkeypatch.setattr(arrays, "PIECE_BYTES", PIECE)
    np.testing.assert_array_equal(open_array(tmp_path / "old.npy"), made())
