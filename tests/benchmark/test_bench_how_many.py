"""The benchmark of the number of groups: draws, merged collections, resuming, the table, and criteria."""

from pathlib import Path

import numpy as np
import pytest
from tests.stages.groups.test_curve import blobs

from spice.benchmark.howmany.criteria import CRITERIA, Sweep
from spice.benchmark.howmany.run import Cell, draw, is_uneven, load, read_cells, run, table
from spice.errors import UserError
from spice.stages.groups.curve import numbers_to_try


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "four.npz"
    np.savez(path, features=blobs([40] * 4), truth=np.repeat(["a", "b", "c", "d"], 40))
    return path


@pytest.mark.parametrize("name", ["silhouette", "Calinski-Harabasz", "gap", "eigengap"])
def test_criteria_count_clear_groups(name: str) -> None:
    assert CRITERIA[name](Sweep(blobs([40] * 4), numbers_to_try(2, 8), seed=0)) == 4


def test_an_uneven_draw_has_classes_from_ten_to_one(source: Path) -> None:
    sizes = np.sort(np.bincount(draw(str(source), uneven=True, images=160, seed=0).truth))
    assert sizes[-1] == 40
    assert sizes[0] == 4


def test_what_is_uneven_by_itself_is_not_drawn_again(tmp_path: Path) -> None:
    path = tmp_path / "two.npz"
    np.savez(path, features=blobs([44, 4]), truth=np.repeat([0, 1], [44, 4]))
    assert is_uneven(load(str(path)))
    assert not is_uneven(load("digits"))


def test_merged_collections_keep_their_classes_apart(source: Path) -> None:
    both = load(f"{source}+{source}")
    assert both.name == "four + four"
    assert np.bincount(both.truth).tolist() == [40] * 8


def test_what_is_saved_is_not_computed_again_and_becomes_a_table(source: Path, tmp_path: Path) -> None:
    path = run([str(source)], tmp_path / "out", seeds=[0], images=160)
    before = path.read_text()
    run([str(source)], tmp_path / "out", seeds=[0], images=160)
    assert path.read_text() == before
    path.write_text("".join(line for line in before.splitlines(keepends=True) if '"silhouette"' not in line))
    run([str(source)], tmp_path / "out", seeds=[0], images=160)
    assert sorted(path.read_text().splitlines()) == sorted(before.splitlines())
    cells = read_cells(path, images=160)
    ours = next(cell for cell in cells if cell.criterion == "spice")
    assert (ours.data, ours.classes, ours.found, ours.error) == ("four", 4, 4, 0.0)
    assert "| four | 4 | 4 |" in table(cells)


def test_cells_with_another_number_of_images_are_not_reused(source: Path, tmp_path: Path) -> None:
    for images in (160, 120):
        path = run([str(source)], tmp_path / "out", seeds=[0], images=images, criteria=["silhouette"])
        assert [cell.data for cell in read_cells(path, images=images)] == ["four", "four, 10:1"]
    assert len(path.read_text().splitlines()) == 4


def test_none_counts_for_no_mean() -> None:
    cells = [
        Cell(data="a", criterion="x", seed=0, classes=4, found=8, listed=[8], error=0.7, quality=0.5),
        Cell(data="a", criterion="x", seed=1, classes=4, found=None, listed=[], error=None, quality=None),
    ]
    assert "| a | 4 | 8, none |" in table(cells)
    assert "0.70" in table(cells)


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no")
    (tmp_path / "empty.npz").touch()
    (tmp_path / "damaged.npz").write_bytes(b"PK\x03\x04 and no more")
    np.save(tmp_path / "array.npy", np.zeros((3, 4)))
    np.savez(tmp_path / "short.npz", features=np.zeros((3, 4)), truth=np.zeros(2))
    np.savez(tmp_path / "flat.npz", features=np.zeros(3), truth=np.zeros(3))
    for path in tmp_path.iterdir():
        with pytest.raises(UserError, match=r"is not an \.npz file with the arrays"):
            load(str(path))


def test_one_criterion_alone(source: Path, tmp_path: Path) -> None:
    cells = read_cells(run([str(source)], tmp_path / "out", seeds=[0], images=160, criteria=["spice"]), images=160)
    assert {cell.criterion for cell in cells} == {"spice"}
    with pytest.raises(UserError, match=r"unknown criterion 'best'; choose from spice, silhouette"):
        run([str(source)], tmp_path / "out", seeds=[0], images=160, criteria=["best"])
