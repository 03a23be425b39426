"""Correcting groups from the terminal."""

import json
from pathlib import Path

import numpy as np
import pytest
from made_run import made_labels, make_run
from typer.testing import CliRunner

from spice.cli import app
from spice.errors import UserError
from spice.runs import open_result
from spice.runs.artifacts import FEATURES, NEIGHBORS, WORDS

PATHS = [f"photos/{number}.png" for number in range(8)]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Images 0 to 3 in cluster 0, the others in cluster 1; features tell 0, 1 from 2, 3."""
    images = len(PATHS)
    made = make_run(tmp_path / "run", made_labels([0] * 4 + [1] * 4, 0, path=PATHS))
    features = np.eye(4, dtype=np.float32)[[0, 0, 1, 1, 2, 2, 2, 2]]
    np.save(made / NEIGHBORS, np.array([[(row + 1) % images, (row + 2) % images] for row in range(images)]))
    np.save(made / FEATURES, features + np.linspace(0, 0.01, images, dtype=np.float32)[:, None])
    return made.run


def spice(*words: str | Path) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(done.exception, Exception):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def table(run: Path) -> list[list[str]]:
    """Path, group, name and by_person of every image, as labels.csv has them."""
    lines = (run / "labels.csv").read_text().splitlines()[1:]
    return [[line.split(",")[0], *line.split(",")[-3:]] for line in lines]


def test_a_name_goes_into_labels_csv(run: Path) -> None:
    assert spice("name", run, "1", "mountains") == "group 1 is now called mountains\n"
    assert table(run)[4] == ["photos/4.png", "1", "mountains", "0"]
    assert spice("name", run, "mountains", "hills") == "group 1 is now called hills\n"
    assert spice("name", run, "1", "") == "group 1 no longer has a name\n"
    assert table(run)[4] == ["photos/4.png", "1", "", "0"]


def test_suggested_names_are_shown_and_accepted_when_told(run: Path) -> None:
    with pytest.raises(UserError, match=r"cannot suggest names: the encoder .* has no words"):
        spice("name", run, "--suggest")
    lemon, gas_pump = 951, 571
    index = np.repeat(np.array([[lemon] * 8, [gas_pump] * 8], np.uint16), 4, axis=0)
    share = np.tile(np.array([0.9] + [0] * 7, np.float16), (len(PATHS), 1))
    np.savez(open_result(run) / WORDS, best=index, share=share)
    shown = spice("name", run, "--suggest")
    assert "    0       4 images  lemon?\n    1       4 images  gas pump?\n" in shown
    assert table(run)[0][2] == ""  # nobody said yes
    assert "lemon?" in spice("groups", run)
    assert "named 2 groups" in spice("name", run, "--suggest", "--yes")
    assert [table(run)[row][2] for row in (0, 4)] == ["lemon", "gas pump"]
    assert "no suggestions" in spice("name", run, "--suggest")


def test_groups_are_merged_split_and_set_aside(run: Path) -> None:
    assert spice("split", run, "0") == "split: group 0 has 2 images, group 2 has 2 images\n"
    assert {row[1] for row in table(run)[:2]} != {row[1] for row in table(run)[2:4]}
    assert spice("merge", run, "1", "2") == "group 1 now has 6 images\n"
    assert spice("set-aside", run, "1") == "group 1 is set aside, with 6 images\n"
    assert [row[1] for row in table(run)].count("-1") == 6
    exported = spice("export", run, run.parent / "all.csv", "--as", "csv").replace("\n", " ")
    assert exported.startswith("exported 2 images to ")
    assert "; left out 6 in groups that are set aside" in exported
    assert "left out" not in spice("export", run, run.parent / "one.csv", "--as", "csv", "--group", "0")
    assert spice("set-aside", run, "1", "--back") == "group 1 is back, with 6 images\n"
    assert spice("groups", run).splitlines()[0].split() == ["group", "images", "by", "you", "name"]
    assert [row["images"] for row in json.loads(spice("groups", run, "--json"))] == [2, 6]


def test_images_are_moved_by_path_or_name(run: Path) -> None:
    spice("name", run, "1", "cats")
    assert spice("move", run, "cats", "photos/0.png", "1.png") == (
        "photos/0.png: group 0 -> cats\n1.png: group 0 -> cats\n"
    )
    assert table(run)[0] == ["photos/0.png", "1", "cats", "1"]
    assert spice("move", run, "new", "4.png") == "4.png: cats -> group 2\n"
    assert spice("move", run, "none", "5.png") == "5.png: cats -> group 0\n"
    assert table(run)[5] == ["photos/5.png", "0", "", "0"]


def test_undo_and_redo_say_what_they_did(run: Path) -> None:
    before = (run / "labels.csv").read_bytes()
    spice("name", run, "1", "cats")
    spice("merge", run, "0", "1")
    assert spice("undo", run).startswith("undone: merge groups 0, 1; redo with: spice redo ")
    assert spice("undo", run).startswith("undone: name group 1 'cats'")
    assert (run / "labels.csv").read_bytes() == before
    assert spice("undo", run) == "nothing to undo\n"
    assert spice("redo", run) == "redone: name group 1 'cats'\n"
    assert table(run)[4][2] == "cats"
    spice("redo", run)
    assert spice("redo", run) == "nothing to redo\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["name", "9", "x"], "there is no group 9; the groups are 0, 1"),
        (["name", "cats", "x"], "there is no group called 'cats' \\(names: no group has a name yet\\)"),
        (["merge", "0"], "need at least 2 groups to merge, got 1"),
        (["split", "0", "--into", "5"], "need at least 5 different images to split a group into 5 parts, got 4"),
        (["move", "0", "nosuch.png"], "nosuch.png is not one of the 8 images of this run"),
    ],
)
def test_mistakes_end_in_one_line_and_change_nothing(run: Path, words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        spice(words[0], run, *words[1:])
    assert not (run / "edits.json").exists()


def test_a_folder_that_is_no_run_is_not_written_to(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run folder"):
        spice("name", tmp_path, "0", "x")
    assert list(tmp_path.iterdir()) == []


def test_learning_without_edits_is_refused_in_words(run: Path) -> None:
    with pytest.raises(UserError, match="nothing to learn from yet"):
        spice("learn", run)
