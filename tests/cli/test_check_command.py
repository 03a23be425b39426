"""`spice check`: asking in the terminal, and what it prints."""

import csv
import json
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from made_run import add_steps, labels_result, made_labels, make_run
from PIL import Image
from typer.testing import CliRunner

from spice.cli import app
from spice.errors import UserError
from spice.runs import open_result
from spice.runs.artifacts import NEIGHBORS
from spice.runs.checks import Checks

N = 60


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two groups: gray images, and black ones."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for row in range(N):
        Image.new("RGB", (40, 30), (128 * (row < 30),) * 3).save(folder / f"{row:02d}.png")
    cluster, ratio = np.repeat(np.array([0, 1], np.int32), 30), np.linspace(0.5, 1, N, dtype=np.float32)
    labels = made_labels(cluster, ratio, path=[f"{row:02d}.png" for row in range(N)])
    made = make_run(tmp_path / "photos.spice", labels, {"labels": labels_result(2)}, source=str(folder))
    np.save(made / NEIGHBORS, (np.arange(N)[:, None] + [1, 2]) % N)
    return add_steps(made.run, {}).run


def check(run: Path, keys: str, *options: str) -> str:
    found = CliRunner().invoke(app, ["check", str(run), *options], input=keys, catch_exceptions=False)
    assert found.exit_code == 0
    return found.stdout


def test_keys_are_answers_and_the_check_resumes(run: Path) -> None:
    told = check(run, "ynyq", "--images", "10")
    assert "photos.spice --images 50  # continue" in told, "3 answers keep nothing"
    assert "photos.spice --images 114 --keep 0.98  # continue" in check(run, "", "--summary", "--keep", "0.98")
    assert "3: 2 right, 1 wrong" in told
    assert " 4 of 10" in told
    told = check(run, "yyyyyyy", "--images", "10")
    assert " 7 of 7" in told
    assert "10: 9 right, 1 wrong" in told
    assert "10 images are already checked; to check more: --images 20" in check(run, "", "--images", "10")


def test_back_takes_an_answer_back_and_other_keys_explain_themselves(run: Path) -> None:
    told = check(run, "b n x b y q", "--images", "10")
    assert told.count("press y, n, u, b, q") == 2
    assert "1: 1 right, 0 wrong" in told


def test_the_page_shows_every_image_beside_its_group(run: Path) -> None:
    check(run, "q", "--images", "10")
    page = (run / "check.html").read_text()
    assert page.count("<section") == 10
    assert 'id="image-10"' in page
    assert page.count("data:image/jpeg") >= 10 * 8


def test_right_answers_promise_what_is_kept_and_export_writes_it(run: Path, tmp_path: Path) -> None:
    told = check(run, "y" * 60, "--images", "60", "--keep", "0.9")
    assert "60 images are kept; at least 90% of them are right (90% confidence)" in told
    assert "kept --as folders --kept --keep 0.9 " in told
    found = CliRunner().invoke(app, ["export", str(run), str(tmp_path / "out.csv"), "--as", "csv", "--kept"])
    assert found.exit_code == 0
    assert "exported 60 images" in found.stdout


def test_where_too_many_answers_are_wrong_an_accuracy_that_works_is_suggested(run: Path, tmp_path: Path) -> None:
    asked = Checks(open_result(run)).questions(60)
    told = check(run, "".join("n" if question.row in (*range(12), 40) else "y" for question in asked), "--images", "60")
    assert "are wrong for an accuracy of 95%; 80% would work" in told
    suggested = f"spice check {run} --keep 0.8"
    assert told.splitlines()[-1] == f"next       {suggested}"
    assert "are kept; at least 80% of them are right" in check(run, "", "--keep", "0.8")
    with pytest.raises(UserError, match=r"80% would work: --keep 0.8$"):
        CliRunner().invoke(
            app, ["export", str(run), str(tmp_path / "out"), "--as", "folders", "--kept"], catch_exceptions=False
        )


def test_where_nearly_all_answers_are_wrong_nothing_is_suggested(run: Path) -> None:
    assert check(run, "n" * 60, "--images", "60").splitlines()[-1].endswith("are wrong for an accuracy of 95%")


def test_labels_csv_has_the_chances_after_the_check(run: Path) -> None:
    check(run, "n" * 40, "--images", "40")
    with (run / "labels.csv").open(newline="") as file:
        assert max(float(row["chance"]) for row in csv.DictReader(file)) < 0.3


def test_a_summary_asks_nothing_and_can_be_json(run: Path) -> None:
    check(run, "yyyyynq", "--images", "10")
    found = json.loads(check(run, "", "--json"))
    assert (found["yes"], found["no"], found["keep"]["threshold"]) == (5, 1, None)
    assert found["accuracy"]["low"] < found["accuracy"]["value"] <= found["accuracy"]["high"]
    assert "needs at least 45 answers, and there are 6" in check(run, "", "--summary")


def test_nothing_is_exported_as_kept_before_a_check(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO())
    command = ["export", str(run), str(tmp_path / "out"), "--as", "folders", "--kept"]
    with pytest.raises(UserError, match=r"there are 0; continue with: spice check \S+$"):
        CliRunner().invoke(app, command, catch_exceptions=False)
    with pytest.raises(UserError, match=r"there are 0; continue with: spice check \S+ --images 114$"):
        CliRunner().invoke(app, [*command, "--keep", "0.98"], catch_exceptions=False)
