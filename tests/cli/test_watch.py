"""`spice watch`: images that arrive are put into the groups of a run, each once, and none while it is being written."""

import csv
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import spice as package
from spice.cli.watch import _print_arrived
from spice.errors import UserError
from spice.pipeline import cluster
from spice.presets import standard
from spice.runs.editor import Editor
from spice.runs.edits import Name
from spice.watch import WATCHED, Watcher


@pytest.fixture(scope="module")
def made(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `camera` with half of the drawings, and `camera.spice`, its run."""
    home = tmp_path_factory.mktemp("watch")
    for path in shapes.rglob("1*.png"):
        (home / "camera").mkdir(exist_ok=True)
        shutil.copy(path, home / "camera" / f"{path.parent.name}-{path.name}")
    cluster(str(home / "camera"), standard(clusters=4, size=64), home / "camera.spice")
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made / "camera", tmp_path / "camera")
    shutil.copytree(made / "camera.spice", tmp_path / "camera.spice", symlinks=True)
    manifest = tmp_path / "camera.spice" / "manifest.json"
    manifest.write_text(manifest.read_text().replace(str(made), str(tmp_path)))
    return tmp_path


def rows(home: Path) -> list[dict[str, str]]:
    with (home / "camera.spice" / WATCHED).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def watcher(home: Path) -> Watcher:
    run = home / "camera.spice"
    return Watcher(home / "camera", run, package.load(run / "model"))


def test_new_images_join_their_groups_and_are_appended_once(watcher: Watcher, home: Path, shapes: Path) -> None:
    Editor(home / "camera.spice").do(Name(group=2, name="twos"))
    assert watcher.look() == watcher.look() == [], "what the run was made of is not new"
    shutil.copy(shapes / "ring" / "20.png", home / "camera" / "new.png")
    assert watcher.look() == [], "it may still be written"
    (arrived,) = watcher.look()
    labels = package.load(home / "camera.spice").table().set_index("path")
    assert arrived.path == "new.png"
    assert arrived.group == labels.loc["ring-1.png", "group"]
    assert arrived.name == labels.loc["ring-1.png", "name"]
    assert not arrived.unlike
    assert watcher.look() == []
    noise = np.random.default_rng(0).integers(0, 256, (48, 48, 3), dtype=np.uint8)
    Image.fromarray(noise).save(home / "camera" / "noise.png")
    watcher.look()
    assert [one.unlike for one in watcher.look()] == [True]
    assert [row["path"] for row in rows(home)] == ["new.png", "noise.png"]
    assert rows(home)[0]["group"] == str(arrived.group)
    again = Watcher(home / "camera", home / "camera.spice", watcher.model)
    assert again.once(sleep=lambda _: None) == [], "another start knows the table"


def test_a_file_that_is_being_written_waits_and_a_broken_one_is_tried_when_it_changes(
    watcher: Watcher, home: Path, shapes: Path
) -> None:
    whole, file = (shapes / "disc" / "20.png").read_bytes(), home / "camera" / "slow.png"
    file.write_bytes(whole[:100])
    watcher.look()
    file.write_bytes(whole[:200])
    assert watcher.look() == [], "it has changed"
    assert watcher.look() == [], "it has stopped, but it is cut off"
    assert not (home / "camera.spice" / WATCHED).exists()
    file.write_bytes(whole)
    watcher.look()
    assert [one.path for one in watcher.look()] == ["slow.png"]


def test_a_line_that_a_kill_cut_off_is_dropped(watcher: Watcher, home: Path, shapes: Path) -> None:
    for name in ("a.png", "b.png"):
        shutil.copy(shapes / "ring" / f"2{'ab'.index(name[0])}.png", home / "camera" / name)
    watcher.once(sleep=lambda _: None)
    table = home / "camera.spice" / WATCHED
    table.write_bytes(table.read_bytes()[:-5])
    again = Watcher(home / "camera", home / "camera.spice", watcher.model)
    assert [one.path for one in again.once(sleep=lambda _: None)] == ["b.png"]
    assert [row["path"] for row in rows(home)] == ["a.png", "b.png"]


def test_the_command_looks_once_for_a_script(home: Path, shapes: Path, spice: Callable[..., Any]) -> None:
    shutil.copy(shapes / "ring" / "21.png", home / "camera" / "new.png")
    told = spice("watch", home / "camera", "--run", home / "camera.spice", "--once")
    assert told.code == 0
    assert told.out.startswith("new.png: group ")
    assert "images     1 new" in told.err
    with pytest.raises(UserError, match="no folder"):
        Watcher(home / "nowhere", home / "camera.spice", package.load(home / "camera.spice" / "model"))


def test_files_of_the_same_name_in_a_second_folder_are_sorted_too(watcher: Watcher, home: Path, shapes: Path) -> None:
    shutil.copy(shapes / "ring" / "21.png", home / "camera" / "new.png")
    (home / "phone").mkdir()
    shutil.copy(shapes / "disc" / "21.png", home / "phone" / "new.png")
    watcher.once(sleep=lambda _: None)
    for expected in (["new.png"], []):
        second = Watcher(home / "phone", home / "camera.spice", watcher.model)
        assert [one.path for one in second.once(sleep=lambda _: None)] == expected
    found = [(row["path"], row["folder"]) for row in rows(home)]
    assert found == [("new.png", str(home / "camera")), ("new.png", str(home / "phone"))]


def test_images_in_the_table_of_an_earlier_version_are_skipped_and_counted(
    watcher: Watcher, home: Path, shapes: Path, spice: Callable[..., Any]
) -> None:
    camera, run = home / "camera", home / "camera.spice"
    shutil.copy(shapes / "ring" / "21.png", camera / "old, with comma.png")
    watcher.once(sleep=lambda _: None)
    table = run / WATCHED
    lines = [line.rpartition(",")[0] for line in table.read_text().splitlines()]
    table.write_text("\n".join(lines) + "\n")
    shutil.copy(shapes / "ring" / "22.png", camera / "new.png")
    told = spice("watch", camera, "--run", run, "--once")
    assert told.out.startswith("new.png: ")
    assert "images     1 new" in told.err
    assert "skipped    1 file with a name in" in told.err
    assert [(row["path"], row["folder"]) for row in rows(home)] == [
        ("old, with comma.png", ""),
        ("new.png", str(camera)),
    ]


def test_the_images_of_a_run_are_not_new_when_their_folder_is_reached_by_a_link(watcher: Watcher, home: Path) -> None:
    (home / "link").symlink_to(home / "camera")
    linked = Watcher(home / "link", home / "camera.spice", watcher.model)
    assert linked.once(sleep=lambda _: None) == []


@pytest.mark.slow
def test_ctrl_c_ends_the_watch_cleanly(home: Path, shapes: Path) -> None:
    # A shell lets what runs in its background ignore Ctrl-C.
    start = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from spice.cli import main; main()"
    )
    command = [sys.executable, "-c", start, "watch", "camera", "--every", "0.2"]
    process = subprocess.Popen(command, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stdout is not None
    assert "press Ctrl-C" in process.stderr.readline()
    shutil.copy(shapes / "ring" / "22.png", home / "camera" / "new.png")
    assert process.stdout.readline().startswith("new.png: ")
    os.kill(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "images     1 new" in told
    assert "Traceback" not in told


def test_a_file_that_cannot_be_read_is_told_once_and_again_when_it_has_changed(
    watcher: Watcher, home: Path, shapes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = home / "camera" / "broken.jpg"
    broken.write_text("no image")
    assert watcher.once(sleep=lambda _: None) == []
    assert (watcher.unreadable(), watcher.unreadable()) == (["broken.jpg"], [])
    shutil.copy(shapes / "ring" / "20.png", home / "camera" / "new.png")
    broken.write_text("no image either")
    arrived = watcher.once(sleep=lambda _: None)
    _print_arrived(arrived, watcher.unreadable())
    told = capsys.readouterr()
    assert told.out.startswith("new.png: ")
    assert told.err == "broken.jpg: cannot be read as an image; tried again when it changes\n"
