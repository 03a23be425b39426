"""The list of edits: append-only, undo and redo at any depth, safe on the disk before it is reported as done."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from spice.errors import UserError
from spice.runs.edits import (
    Edits,
    ImageId,
    Merge,
    Move,
    Name,
    Operation,
    Other,
    Pair,
    StaleEditsError,
    append_locked,
    editing,
    read_edits,
    redo,
    undo,
)


def named(number: int) -> Name:
    return Name(group=number, name=f"name {number}")


def append(run: Path, operation: Operation, *, expected: int | None = None) -> Edits:
    with editing(run, expected=expected) as edits:
        return append_locked(run, edits, operation, result="r")


def test_a_run_that_nobody_edited_has_no_edits_and_no_file(tmp_path: Path) -> None:
    assert read_edits(tmp_path) == Edits()
    assert undo(tmp_path) is None
    assert redo(tmp_path) is None
    assert not (tmp_path / "edits.json").exists()


def test_edits_are_read_as_they_were_written(tmp_path: Path) -> None:
    image, other = ImageId("a1", "ü/a.png"), ImageId("b2", 'with "quotes".png')
    operations: list[Operation] = [named(3), Merge(groups=[3, 5]), Move(images=[image], group=None)]
    operations += [Pair(kind="same", first=image, second=other), Other.model_validate({"kind": "later", "right": True})]
    for operation in operations:
        append(tmp_path, operation)
    found = read_edits(tmp_path)
    assert [edit.operation for edit in found.edits] == operations
    assert [edit.id for edit in found.edits] == [1, 2, 3, 4, 5]
    assert {edit.result for edit in found.edits} == {"r"}
    assert json.loads((tmp_path / "edits.json").read_text())["edits"][4]["operation"] == {
        "kind": "later",
        "right": True,
    }


def test_undo_and_redo_go_to_any_depth(tmp_path: Path) -> None:
    for number in range(30):
        append(tmp_path, named(number))
    assert [undo(tmp_path).operation.group for _ in range(30)] == list(range(29, -1, -1))  # type: ignore[union-attr]
    assert undo(tmp_path) is None
    assert read_edits(tmp_path).active() == []
    assert [redo(tmp_path).operation.group for _ in range(30)] == list(range(30))  # type: ignore[union-attr]
    assert redo(tmp_path) is None
    assert [edit.id for edit in read_edits(tmp_path).active()] == list(range(1, 31))


def test_a_new_edit_ends_what_could_be_redone_and_nothing_is_removed_from_the_list(tmp_path: Path) -> None:
    append(tmp_path, named(0))
    undo(tmp_path)
    append(tmp_path, named(1))
    assert redo(tmp_path) is None
    found = read_edits(tmp_path)
    assert [edit.operation.kind for edit in found.edits] == ["name", "undo", "name"]
    assert [edit.operation for edit in found.active()] == [named(1)]


def test_any_sequence_leaves_what_a_plain_editor_would(tmp_path: Path) -> None:
    random.seed(7)
    done: list[int] = []
    undone: list[int] = []
    for number in range(120):
        action = random.choice(["edit", "edit", "undo", "redo"])
        if action == "edit":
            append(tmp_path, named(number))
            done.append(number)
            undone = []
        elif action == "undo":
            assert (undo(tmp_path) is not None) == bool(done)
            undone += [done.pop()] if done else []
        else:
            assert (redo(tmp_path) is not None) == bool(undone)
            done += [undone.pop()] if undone else []
    assert [edit.operation for edit in read_edits(tmp_path).active()] == [named(number) for number in done]


def test_a_second_writer_is_told_of_the_first_ones_edits(tmp_path: Path) -> None:
    seen = append(tmp_path, named(0)).revision
    append(tmp_path, named(1), expected=seen)
    with pytest.raises(StaleEditsError, match=r"edited elsewhere in the meantime \(revision 2, expected 1\)"):
        append(tmp_path, named(2), expected=seen)
    with pytest.raises(StaleEditsError):
        undo(tmp_path, expected=seen)
    assert read_edits(tmp_path).revision == 2


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    def write(writer: int) -> None:
        for number in range(15):
            append(tmp_path, named(100 * writer + number))

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    found = read_edits(tmp_path)
    names = [edit.operation.name for edit in found.edits if isinstance(edit.operation, Name)]
    assert sorted(names) == sorted(named(100 * writer + number).name for writer in range(4) for number in range(15))
    assert [edit.id for edit in found.edits] == list(range(1, 61))


WRITER = """
import sys
from pathlib import Path
from spice.runs.edits import Name, append_locked, editing
run, operation = Path(sys.argv[1]), Name(group=0, name="x" * 5000)
while True:
    with editing(run) as edits:
        revision = append_locked(run, edits, operation, result="r").revision
    print(revision, flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is of POSIX systems")
def test_a_kill_at_any_moment_loses_no_edit_that_was_reported_as_done(tmp_path: Path) -> None:
    random.seed(3)
    for _ in range(4):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        reported = writer.stdout.readline()
        time.sleep(random.random() * 0.1)
        writer.send_signal(signal.SIGKILL)
        lines = [reported, *writer.stdout.read().splitlines()]
        writer.wait()
        last = max(int(line) for line in lines if line.strip())
        found = read_edits(tmp_path)
        assert last <= found.revision <= last + 1  # the one under way may be there, or not
        assert append(tmp_path, named(1)).revision == found.revision + 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is damaged"),
        ('{"format": 1, "edits": [{"id": 1}]}', "is damaged"),
        (
            '{"format": 1, "edits": [{"id": 1, "time": "", "result": "r", "operation": {"kind": "undo", "edit": 1}}]}',
            "is",
        ),
        ('{"format": 99, "edits": []}', "made by a newer spice"),
    ],
)
def test_a_damaged_list_is_refused_and_never_overwritten(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "edits.json").write_text(content)
    with pytest.raises(UserError, match=words):
        read_edits(tmp_path)
    with pytest.raises(UserError, match=words):
        append(tmp_path, named(0))
    assert (tmp_path / "edits.json").read_text() == content
