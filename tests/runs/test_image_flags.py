"""Outliers and near-duplicates of a finished run."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from spice.cli import app
from spice.runs import Result
from spice.runs.artifacts import PAIRS, SIMILARITIES
from spice.runs.image_flags import duplicates_of, outliers_of


@pytest.fixture
def run(finished: Result) -> Result:
    """Image 5 is the largest (made collections have growing sizes); 1 and 2 repeat it, 0 and 3 are alike, less so."""
    first, second = np.array([1, 2, 0]), np.array([5, 5, 3])
    np.savez(finished / PAIRS, first=first, second=second, likeness=np.array([0.99, 0.95, 0.91], np.float32))
    similarities = np.full((6, 5), 0.8, np.float32) + np.linspace(0, 0.01, 6, dtype=np.float32)[:, None]
    similarities[4] = 0.1
    np.save(finished / SIMILARITIES, similarities)
    return finished


def test_the_largest_image_comes_first_with_its_copies(run: Result) -> None:
    found = duplicates_of(run)
    assert [(one.row, one.copies) for one in found] == [(5, [1, 2]), (3, [0])]
    assert found[0].likeness == pytest.approx([0.99, 0.95])


def test_a_higher_threshold_leaves_fewer(run: Result) -> None:
    assert [one[:2] for one in duplicates_of(run, threshold=0.96)] == [(5, [1])]


def test_the_image_unlike_the_others_is_found(run: Result) -> None:
    assert outliers_of(run).farthest().tolist() == [4]


def test_both_commands_print_paths(run: Result) -> None:
    def told(*arguments: str) -> str:
        found = CliRunner().invoke(app, [*arguments[:1], str(run.run), *arguments[1:]], catch_exceptions=False)
        return found.stdout

    assert "3 near-duplicates of 2 images" in told("duplicates")
    assert "cats/b.png" not in told("duplicates", "--threshold", "0.995")
    assert json.loads(told("duplicates", "--json"))[1] == {
        "path": run.labels.path[3],
        "copies": {"cats/a.png": pytest.approx(0.91)},
    }
    assert "outliers   1 of 6 images" in told("outliers")
    assert [row["path"] for row in json.loads(told("outliers", "--json"))] == [run.labels.path[4]]
