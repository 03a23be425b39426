"""Files that cannot be written or read: one line that names the file, and nothing half-written."""

import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from damage import cut, flip_a_bit

from spice.errors import NoticeWarning
from spice.runs import open_result
from spice.runs.artifacts import (
    FEATURES,
    IMAGES,
    KMEANS,
    LABELS,
    LABELS_CSV,
    MAP,
    MODEL,
    NEIGHBORS,
    PICTURES,
    PROBABILITIES,
    PROBLEMS,
    Artifact,
)

Spice = Callable[..., Any]


@pytest.mark.parametrize("shape", ["csv", "parquet", "model", "onnx", "folders", "labelstudio", "fiftyone"])
def test_an_export_to_a_place_that_is_none_says_so(spice: Spice, session_run: Path, tmp_path: Path, shape: str) -> None:
    (tmp_path / "file").touch()
    ended = spice("export", session_run, tmp_path / "file" / "out", "--as", shape)
    assert ended.code == 2
    assert ended.err == f"spice: cannot write {tmp_path}/file/out: {tmp_path}/file is a file; choose another name\n"


def test_predictions_that_cannot_be_written_name_the_file(
    spice: Spice, session_run: Path, shapes: Path, tmp_path: Path
) -> None:
    (tmp_path / "taken.csv").mkdir()
    ended = spice("predict", session_run, shapes / "disc" / "0.png", "--out", tmp_path / "taken.csv")
    assert ended.code == 2
    assert ended.err.endswith(f"spice: cannot write {tmp_path}/taken.csv: Is a directory; choose another name\n")
    assert list(tmp_path.iterdir()) == [tmp_path / "taken.csv"]
    assert spice("predict", session_run, shapes / "disc" / "0.png", "--out", tmp_path / "new" / "a.csv").code == 0
    wrong = spice("predict", session_run, "nowhere", "--out", tmp_path / "a.txt")  # before anything is read
    assert wrong.err == f"spice: {tmp_path}/a.txt must end in .csv or .parquet\n"


@pytest.mark.parametrize(
    ("name", "command", "words"),
    [
        ("manifest.json", "groups", "cannot read RUN/manifest.json: Is a directory"),
        ("manifest.json", "resume", "cannot read RUN/manifest.json: Is a directory"),
        ("manifest.json", "predict", "cannot read RUN/manifest.json: Is a directory"),
        ("model/model.json", "predict", "/model is damaged; recreate it with: spice resume RUN"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(
    spice: Spice, run: Path, shapes: Path, name: str, command: str, words: str
) -> None:
    (run / name).unlink()
    (run / name).mkdir()  # root may read any file, but no folder as a file
    ended = spice(command, run, *([shapes] if command == "predict" else []))
    assert ended.code == 2
    assert ended.err.startswith("spice: ")
    assert ended.err.endswith(words.replace("RUN", str(run)) + "\n")
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("damage", [flip_a_bit, cut])
@pytest.mark.parametrize(
    ("artifact", "arguments"),
    [
        (LABELS, ("export", "RUN", "OUT.csv", "--as", "csv")),
        (LABELS, ("runs", "RUN")),
        (NEIGHBORS, ("why", "RUN", "disc/0.png")),
        (PROBABILITIES, ("why", "RUN", "disc/0.png")),
        (MAP, ("report", "RUN")),
        (PROBLEMS, ("report", "RUN")),
        (KMEANS, ("evaluate", "RUN", "--truth", "folders")),
    ],
)
def test_damaged_files_are_named_and_never_read(
    spice: Spice, run: Path, artifact: Artifact, arguments: tuple[str, ...], damage: Callable[[Path], None]
) -> None:
    path = open_result(run) / artifact
    damage(path)
    ended = spice(*(str(run) if argument == "RUN" else argument for argument in arguments))
    assert ended.code == 2
    assert ended.err == f"spice: {path} is damaged; recreate it with: spice resume {run}\n"
    assert ended.out == ""


@pytest.mark.parametrize("damage", [flip_a_bit, cut])
@pytest.mark.parametrize(
    "artifact", [IMAGES, PROBLEMS, FEATURES, NEIGHBORS, KMEANS, LABELS, LABELS_CSV, PROBABILITIES, MODEL]
)
def test_a_run_that_is_resumed_repairs_what_other_commands_read(
    spice: Spice, run: Path, artifact: Artifact, damage: Callable[[Path], None]
) -> None:
    path = open_result(run) / artifact
    path = path / "head.safetensors" if artifact is MODEL else path
    before = path.read_bytes()
    damage(path)
    with pytest.warns(NoticeWarning, match=f"{path} changed after it was written; recreating it"):
        assert spice("resume", run).code == 0
    assert path.read_bytes() == before
    path.unlink()  # as a user may do on purpose
    with warnings.catch_warnings(record=True) as given:
        assert spice("resume", run).code == 0
    assert [warning for warning in given if issubclass(warning.category, NoticeWarning)] == []
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("resume",),
        ("report",),
        ("evaluate", "--truth", "folders"),
        ("refine",),
        ("name", "0", "x"),
        ("merge", "0", "1"),
        ("undo",),
        ("learn", "--yes"),
        ("check", "--images", "2"),
    ],
)
def test_no_command_writes_through_a_link(spice: Spice, run: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    (run / ".holder").unlink(missing_ok=True)
    (run / ".holder").symlink_to(mine)
    ended = spice(arguments[0], run, *arguments[1:])
    assert ended.code == 2
    assert (
        ended.err.splitlines()[-1]
        == f"spice: {run}/.holder is a link to {mine}, outside the run folder; remove the link"
    )
    assert mine.read_text() == "mine"


def test_watching_appends_through_no_link(spice: Spice, run: Path, shapes: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text("mine")
    (run / "watched.csv").symlink_to(mine)
    ended = spice("watch", shapes, "--run", run, "--once")
    assert ended.code == 2
    assert f"{run}/watched.csv is a link to {mine}, outside the run folder" in ended.err
    assert mine.read_text() == "mine"


def test_damaged_pictures_are_not_put_on_the_page(spice: Spice, run: Path) -> None:
    pictures = open_result(run) / PICTURES
    (pictures / "sheet-0.jpg").unlink()
    ended = spice("report", run)
    assert ended.code == 2
    assert ended.err == f"spice: {pictures} is damaged; delete this folder, then: spice report {run}\n"
    shutil.rmtree(pictures)
    assert spice("report", run).code == 0


@pytest.mark.parametrize("arguments", [("report", "RUN"), ("why", "RUN", "disc/0.png"), ("groups", "RUN")])
def test_a_result_that_another_process_replaces_is_one_line(
    spice: Spice, run: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    found = open_result(run)
    found.records  # noqa: B018 - read before the other process removes the files
    monkeypatch.setattr("spice.runs.open_result", lambda _: found)
    monkeypatch.setattr("spice.runs.result.open_result", lambda _: found)
    shutil.rmtree(found.folder)
    ended = spice(*(str(run) if part == "RUN" else part for part in arguments))
    assert ended.code == 2
    assert ended.err.startswith("spice: ")
    assert len(ended.err.splitlines()) == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit on the size of files")
def test_no_room_for_any_file_is_one_line(session_run: Path, tmp_path: Path) -> None:
    # Packages that torch imports look for a folder for temporary files as soon as they are loaded.
    program = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    program += "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); from spice.cli import main; main()"
    export = ["export", str(session_run), str(tmp_path / "model.onnx"), "--as", "onnx"]
    ended = subprocess.run([sys.executable, "-B", "-c", program, *export], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("spice: "), ended.stderr
    assert ended.stderr.count("\n") == 1
    assert "free some space" in ended.stderr
