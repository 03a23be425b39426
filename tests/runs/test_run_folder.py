"""A run folder is begun, gone on with, or refused; what is done is known by its key."""

import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from spice.errors import UserError
from spice.runs import RunFolder, key_of
from spice.runs.artifacts import ARTIFACTS, FEATURES, LABELS, NEIGHBORS, VIEWS
from spice.runs.folder import refuse_foreign, sweep
from spice.runs.manifest import FORMAT


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.begin(tmp_path, source="/photos", settings={"seed": 3})


def test_a_run_is_opened_as_it_was_left(run: RunFolder) -> None:
    run.finish("views", "abc", 1.25, {"width": 1280})
    run.update(input="hash")
    again = RunFolder.open(run.path)
    assert again.manifest == run.manifest
    assert again.manifest.settings == {"seed": 3}
    assert again.manifest.input == "hash"
    assert again.manifest.steps["views"].figures == {"width": 1280}
    assert again.manifest.versions["torch"] != "missing"


def test_a_step_is_done_only_with_the_same_settings_and_its_artifacts_in_place(run: RunFolder) -> None:
    run.finish("views", "abc", 1.0, {})
    assert run.is_done("views", "abc", [])
    assert not run.is_done("views", "other settings", [])
    assert not run.is_done("heads", "abc", [])
    assert not run.is_done("views", "abc", [FEATURES])
    (run / FEATURES).touch()
    assert run.is_done("views", "abc", [FEATURES])


def test_unfinished_work_of_other_settings_is_not_picked_up(run: RunFolder) -> None:
    (run.work("heads", "old") / "checkpoint").touch()
    (run.work("views", "v") / "kept").touch()
    assert list(run.work("heads", "new").iterdir()) == []
    assert not (run.path / "work" / "heads" / "old").exists()
    assert (run.path / "work" / "views" / "v" / "kept").exists()


def test_unfinished_work_is_there_after_a_restart_and_gone_when_the_step_is_done(run: RunFolder) -> None:
    (run.work("heads", "k") / "checkpoint").touch()
    again = RunFolder.open(run.path)
    assert (again.work("heads", "k") / "checkpoint").exists()
    again.finish("heads", "k", 1.0, {})
    assert not (run.path / "work" / "heads").exists()


def test_keys_depend_on_values_and_not_on_the_order_of_names() -> None:
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    assert key_of({"a": 1}) != key_of({"a": 2})
    assert key_of("a", "b") != key_of("ab")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (FORMAT - 1, r"made by an older spice \(run folder format 0, this one reads 1\).*spice cluster --out OTHER"),
        (FORMAT + 1, r"made by a newer spice \(run folder format 2.*pip install -U spice-cluster"),
        (None, r"made by an older spice"),
    ],
)
def test_a_run_of_another_version_is_refused_in_words(run: RunFolder, found: int | None, words: str) -> None:
    path = run.path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": found}))
    with pytest.raises(UserError, match=words):
        RunFolder.open(run.path)


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 1, "steps": 3}'])
def test_a_damaged_manifest_is_one_line(run: RunFolder, content: str) -> None:
    (run.path / "manifest.json").write_text(content)
    with pytest.raises(UserError) as error:
        RunFolder.open(run.path)
    assert "\n" not in str(error.value)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not a run folder \(it has no manifest.json\)"):
        RunFolder.open(tmp_path)


def test_nothing_of_the_users_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match=r"not empty and not a run folder; give another name with --out"):
        RunFolder.begin(tmp_path, source=None, settings={})
    with pytest.raises(UserError, match="is a file"):
        refuse_foreign(tmp_path / "thesis.txt")


def test_a_kill_in_the_first_moment_leaves_a_folder_that_can_be_used(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    (tmp_path / ".manifest.json.123.partial").touch()
    RunFolder.begin(tmp_path, source=None, settings={})
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "manifest.json"]


def test_every_artifact_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "run-folder.md").read_text()
    assert LABELS in ARTIFACTS
    missing = [artifact.name for artifact in ARTIFACTS if f"`{artifact.name}" not in page]
    assert not missing


def test_the_same_settings_go_on_and_others_are_refused_with_what_changed(tmp_path: Path) -> None:
    def go_on(clusters: int, *, redo: bool = False) -> RunFolder:
        settings: dict[str, JsonValue] = {"seed": 0, "heads": {"clusters": clusters}}
        return RunFolder.begin_or_go_on(tmp_path, source="/photos", settings=settings, redo=redo)

    go_on(10).finish("views", "key", 1.0, {})
    assert "views" in go_on(10).manifest.steps
    with pytest.raises(UserError, match=r"other settings \(heads.clusters was 10, is 12\).*--out.*--redo"):
        go_on(12)
    taken_over = go_on(12, redo=True)
    assert taken_over.manifest.settings["heads"] == {"clusters": 12}
    assert "views" in taken_over.manifest.steps  # its own key tells whether it still holds
    assert "views" in go_on(12).manifest.steps


def test_a_forgotten_step_is_gone_with_all_it_made(run: RunFolder) -> None:
    run.finish("views", "k", 1.0, {})
    run.finish("labels", "k", 1.0, {})
    (run.path / "features.npy").touch()
    (run.path / "views").mkdir()
    (run.path / "views" / "weak.npy").touch()
    run.forget("views", [FEATURES, VIEWS, NEIGHBORS])
    assert sorted(path.name for path in run.path.iterdir()) == ["manifest.json"]
    assert list(RunFolder.open(run.path).manifest.steps) == ["labels"]
