"""A run folder is created, opened or refused; results live side by side, and one of them is current at any moment."""

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from made_run import heads_result, labels_result, make_run, record_of

from spice.errors import UserError
from spice.files import write_text, written_atomically
from spice.runs import Labels, Result, ResultEntry, RunFolder, key_of, open_result
from spice.runs.artifacts import ARTIFACTS, LABELS, LINKED
from spice.runs.folder import refuse_foreign, refuse_links_outside, remove_partial_files
from spice.runs.manifest import FORMAT, now, versions
from spice.runs.records import (
    RESULTS,
    CandidateCount,
    ClusteringStats,
    FeaturesResult,
    HowManyResult,
    JointResult,
    NeighborsResult,
    ScanResult,
    StepResult,
    StepWarning,
    TreeResult,
    ViewsResult,
    read_record,
    write_record,
)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.open_or_create(tmp_path, source="/photos")


def publish(run: RunFolder, name: str, *, files: tuple[str, ...] = ("labels.csv",)) -> ResultEntry:
    """A result `name` with its own heads, on views that all results share."""
    folders = {"views": "steps/views-1", "heads": f"steps/heads-{name}", "labels": f"results/{name}"}
    for folder in folders.values():
        (run.path / folder).mkdir(parents=True, exist_ok=True)
    for file in files:
        (run.path / "results" / name / file).write_text(name)
    entry = ResultEntry(requested={}, settings={"seed": 3}, folders=folders, created=now(), versions=versions())
    run.publish(name, entry)
    return entry


def test_a_run_is_opened_as_it_was_left(run: RunFolder) -> None:
    run.update(input="hash", pending={"seed": 3})
    publish(run, "k3")
    again = RunFolder.open_or_create(run.path, source="/photos")
    assert again.manifest == run.manifest == RunFolder.open(run.path).manifest
    assert (again.manifest.input, again.manifest.pending) == ("hash", {"seed": 3})
    assert again.manifest.results["k3"].settings == {"seed": 3}
    assert again.manifest.results["k3"].versions["torch"] != "missing"


def test_keys_depend_on_values_and_not_on_the_order_of_names() -> None:
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    assert key_of({"a": 1}) != key_of({"a": 2})
    assert key_of("a", "b") != key_of("ab")


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (1, r"made by an older spice \(run folder format 1; this version reads format 2\).*spice cluster --out OTHER"),
        (FORMAT + 1, r"made by a newer spice \(run folder format 3.*update spice to read it"),
        (None, r"made by an older spice"),
    ],
)
def test_a_run_of_another_version_is_refused_in_words(run: RunFolder, found: int | None, message: str) -> None:
    path = run.path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": found}))
    with pytest.raises(UserError, match=message):
        RunFolder.open(run.path)


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 2, "results": 3}'])
def test_a_damaged_manifest_is_one_line(run: RunFolder, content: str) -> None:
    (run.path / "manifest.json").write_text(content)
    with pytest.raises(UserError) as error:
        RunFolder.open(run.path)
    assert "\n" not in str(error.value)
    with pytest.raises(UserError):  # and it is not written over
        RunFolder.open_or_create(run.path, source=None)
    assert (run.path / "manifest.json").read_text() == content


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not a run folder \(it has no manifest.json\)"):
        RunFolder.open(tmp_path)
    with pytest.raises(UserError, match=r"there is no folder .*photos\.spice$"):
        RunFolder.open(tmp_path / "photos.spice")


def test_nothing_of_the_users_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match=r"not a run folder and not empty; choose another name with --out"):
        RunFolder.open_or_create(tmp_path, source=None)
    with pytest.raises(UserError, match="is a file"):
        refuse_foreign(tmp_path / "thesis.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_kill_in_the_first_moment_leaves_a_folder_that_can_be_used(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    (tmp_path / ".manifest.json.123.partial").touch()
    (tmp_path / ".pictures.partial").mkdir()
    RunFolder.open_or_create(tmp_path, source=None)
    remove_partial_files(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "manifest.json"]


def test_what_a_kill_left_half_written_is_removed_and_all_else_is_kept(finished: Result) -> None:
    before = sorted(finished.run.rglob("*"))
    for folder in (finished.run, *(finished.run / place for place in set(finished.entry.folders.values()))):
        (folder / ".labels.csv.123.partial").touch()
        (folder / ".pictures.partial").mkdir()
        (folder / ".pictures.partial" / "image-0.jpg").touch()
    remove_partial_files(finished.run)
    assert sorted(finished.run.rglob("*")) == before


def test_every_artifact_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "run-folder.md").read_text()
    assert LABELS in ARTIFACTS
    missing = [artifact.name for artifact in ARTIFACTS if f"`{artifact.name}" not in page]
    assert not missing


# Results side by side.


def test_the_top_of_the_folder_leads_to_the_current_result(run: RunFolder) -> None:
    names = tuple(artifact.name for artifact in LINKED)
    publish(run, "k3", files=names)
    publish(run, "k5", files=names)
    for current in ("k5", "k3"):
        run.use(current)
        assert RunFolder.open(run.path).manifest.current == open_result(run.path).name == current
        assert {(run.path / name).read_text() for name in names} == {current}
        assert all(not Path(os.readlink(run.path / name)).is_absolute() for name in names)  # noqa: PTH115
    assert not list(run.path.glob(".*.partial"))


def test_publishing_a_result_again_writes_nothing(run: RunFolder) -> None:
    entry = publish(run, "k3")
    before = (run.path / "manifest.json").stat().st_mtime_ns
    run.publish("k3", entry)
    assert (run.path / "manifest.json").stat().st_mtime_ns == before


def test_a_name_that_the_current_result_does_not_have_leads_nowhere(run: RunFolder) -> None:
    publish(run, "k3", files=("labels.csv", "report.html"))
    publish(run, "k5")
    assert not (run.path / "report.html").is_symlink()
    run.use("k3")
    assert (run.path / "report.html").read_text() == "k3"


def test_an_unknown_result_is_refused_with_those_that_there_are(run: RunFolder) -> None:
    with pytest.raises(UserError, match=r"has no result 'k9'; its results are: none"):
        run.use("k9")
    publish(run, "k3")
    publish(run, "k5")
    with pytest.raises(UserError, match=r"has no result 'k9'; its results are: k3, k5"):
        run.use("k9")
    assert run.manifest.current == "k5"


def test_a_removed_result_takes_only_its_own_steps_along(run: RunFolder) -> None:
    publish(run, "k3")
    publish(run, "k5")
    run.remove("k3")
    assert sorted(path.name for path in (run.path / "steps").iterdir()) == ["heads-k5", "views-1"]
    assert sorted(path.name for path in (run.path / "results").iterdir()) == ["k5"]
    assert list(RunFolder.open(run.path).manifest.results) == ["k5"]
    with pytest.raises(UserError, match=r"k5 is the current result of .* cannot be removed"):
        run.remove("k5")
    with pytest.raises(UserError, match=r"k3 is not a result of"):
        run.remove("k3")


def test_a_run_without_a_result_says_how_to_finish_it(run: RunFolder) -> None:
    run.link()  # which has nothing to lead to
    assert not run.has_results
    with pytest.raises(UserError, match=r"has no groups yet; finish it with: spice resume"):
        open_result(run.path)


def test_a_run_folder_with_a_space_in_its_name_is_quoted_in_the_command_that_finishes_it(tmp_path: Path) -> None:
    folder = tmp_path / "my photos.spice"
    folder.mkdir()
    RunFolder.open_or_create(folder, source="photos", pending={})
    with pytest.raises(UserError, match=r"finish it with: spice resume (['\"]).*my photos\.spice\1$"):
        open_result(folder)


def test_the_scan_alone_is_no_work_to_lose(run: RunFolder) -> None:
    (run.path / "steps" / "scan-1").mkdir(parents=True)
    assert not run.has_results
    (run.path / "steps" / "views-1").mkdir()
    assert run.has_results


# Links.


def test_a_kill_between_manifest_and_link_is_repaired_by_the_next_link(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(run, "k3")
    with monkeypatch.context() as killed:
        killed.setattr(RunFolder, "link", lambda _: None)
        publish(run, "k5")
    assert open_result(run.path).name == "k5"  # the manifest decides
    assert (run.path / "labels.csv").read_text() == "k3"
    RunFolder.open(run.path).link()
    assert (run.path / "labels.csv").read_text() == "k5"


def test_a_link_is_swapped_in_one_step(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(run, "k3")
    publish(run, "k5")
    replace = Path.replace
    swapped: list[str] = []

    def watched(new: Path, old: Path) -> Path:
        if new.is_symlink():
            assert (run.path / "labels.csv").read_text() == "k5"  # up to the swap, the last result is there
            swapped.append(old.name)
        return replace(new, old)

    monkeypatch.setattr(Path, "replace", watched)
    (run.path / ".current.partial").symlink_to("left by a kill")
    run.use("k3")
    assert swapped == ["current"]  # all other names lead through this one, so they change together
    assert (run.path / "labels.csv").read_text() == "k3"


def test_a_file_that_a_person_has_changed_is_put_aside(run: RunFolder) -> None:
    (run.path / "labels.csv").write_text("mine")
    publish(run, "k3")
    assert (run.path / "labels.csv").read_text() == "k3"
    (kept,) = run.path.glob("labels-kept-*.csv")
    assert kept.read_text() == "mine"


def test_a_copy_of_the_run_folder_that_followed_links_shows_no_old_result(run: RunFolder, tmp_path: Path) -> None:
    publish(run, "k3")
    copied = RunFolder.open(Path(shutil.copytree(run.path, tmp_path / "copied")))
    assert not (copied.path / "labels.csv").is_symlink()
    publish(copied, "k4")
    assert (copied.path / "labels.csv").read_text() == (copied.path / "current" / "labels.csv").read_text() == "k4"
    assert not list(copied.path.glob("*kept*"))


def test_a_file_system_without_links_serves_every_result(
    labels: Labels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError("Operation not supported")

    monkeypatch.setattr(Path, "symlink_to", refused)
    result = make_run(tmp_path / "run", labels)
    assert not (tmp_path / "run" / "current").exists()
    assert open_result(tmp_path / "run").labels.path == labels.path
    assert result.need(LABELS) == tmp_path / "run" / "results" / "made" / "labels.parquet"
    assert not list((tmp_path / "run").glob(".*.partial"))


def test_on_windows_copies_take_the_place_of_links(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spice.runs.folder.LINKS", False)
    publish(run, "k3")
    publish(run, "k5")
    run.use("k3")
    assert not any(path.is_symlink() for path in run.path.rglob("*"))
    assert (run.path / "labels.csv").read_text() == "k3"
    assert not list(run.path.glob("*kept*"))


# Records of steps.

STATS = ClusteringStats(
    neighbor_agreement=0.9, prior_neighbor_agreement=0.8, chance_agreement=0.1, confident=0.7, loss=1.5, empty=0
)
REPORTED: dict[str, StepResult] = {
    "scan": ScanResult(images=6, problems=2, copies=1, identity="abc"),
    "features": FeaturesResult(method="moco", network="resnet18", epochs=2, alignment=[1.5, 0.4], uniformity=[-1, -3]),
    "encode": StepResult(),
    "views": ViewsResult(encoder="lite0", size=160, width=1280, space="features"),
    "neighbors": NeighborsResult(neighbors=5),
    "howmany": HowManyResult(
        clusters=3,
        candidates=[CandidateCount(clusters=3, score=0.4, prominence=0.1, spread=0.02)],
        counts=[2, 3, 4],
        score=[0.3, 0.4, 0.2],
        spread=[0.01, 0.02, 0.01],
        null=0.1,
        drawn=6,
        finest_peak=3,
        communities=5,
        fits_labels=False,
    ),
    "tree": TreeResult(leaves=5, information=1.5),
    "kmeans": StepResult(),
    "heads": heads_result([[2.0, 1.9], [1.5, 1.8]], head=1),
    "joint": JointResult(
        labeled=4,
        given=1,
        moved=2,
        loss=[1.0],
        taught=[0.5],
        before=STATS,
        after=None,
        failed_checks=["it fell"],
        used=False,
    ),
    "labels": labels_result(3, head_overlap=[0.1, 0.2, 0.3]),
    "model": StepResult(),
    "map": StepResult(),
    "words": StepResult(),
    "pictures": StepResult(),
    "report": StepResult(),
}


def test_every_step_is_tested_below() -> None:
    assert list(REPORTED) == list(RESULTS)


@pytest.mark.parametrize("step", REPORTED)
def test_what_a_step_reports_is_read_as_it_was_written(step: str, tmp_path: Path) -> None:
    written = record_of(step, REPORTED[step], seconds=1.25, warnings=[StepWarning(name="SomeWarning", text="try this")])
    write_record(tmp_path, written)
    read = read_record(tmp_path, step)
    assert read is not None
    assert type(read.result) is RESULTS[step]
    assert read.model_dump() == written.model_dump(serialize_as_any=True)
    assert [path.name for path in tmp_path.iterdir()] == [f"{step}.json"]


def test_a_step_without_a_record_is_not_finished(finished: Result) -> None:
    assert read_record(finished.run, "heads") is None
    assert read_record(finished.run / "nowhere", "heads") is None
    (finished.run / finished.entry.folders["heads"] / "heads.json").unlink()
    with pytest.raises(UserError, match=r"the step 'heads' of .* is not finished; resume with: spice resume"):
        _ = finished.reread().heads


@pytest.mark.parametrize("content", ["{", "[]", '{"step": "heads"}'])
def test_a_damaged_record_is_an_error_that_names_the_file(finished: Result, content: str) -> None:
    path = finished.run / finished.entry.folders["heads"] / "heads.json"
    path.write_text(content)
    with pytest.raises(UserError, match="is damaged, or from another version of spice") as error:
        _ = finished.reread().heads
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", [".lock", ".holder", "store", "steps", "results/k3/labels.csv", "steps/heads-k3/new"])
@pytest.mark.parametrize("target", ["file", "folder", "nothing", "loop"])
def test_a_link_that_leads_out_of_the_run_folder_is_refused(
    run: RunFolder, tmp_path_factory: pytest.TempPathFactory, name: str, target: str
) -> None:
    publish(run, "k3")
    refuse_links_outside(run.path)  # our own links are no reason
    outside = tmp_path_factory.mktemp("outside")
    (outside / "file").touch()
    (outside / "folder").mkdir()
    link = run.path / name
    shutil.rmtree(link, ignore_errors=True)
    link.unlink(missing_ok=True)
    if target == "loop":
        (outside / "loop").symlink_to(outside / "loop")
    link.symlink_to(outside / target)
    with pytest.raises(
        UserError, match=rf"{link} is a link to {outside / target}, outside the run folder; remove the link"
    ):
        refuse_links_outside(run.path)


def test_our_own_links_are_replaced_wherever_they_lead(
    run: RunFolder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    publish(run, "k3")
    outside = tmp_path_factory.mktemp("outside")
    (outside / "mine.txt").write_text("mine")
    for name, target in (("current", outside), ("labels.csv", outside / "mine.txt"), ("model", outside)):
        (run.path / name).unlink(missing_ok=True)
        (run.path / name).symlink_to(target)
    refuse_links_outside(run.path)
    run.link()
    assert (run.path / "labels.csv").read_text() == "k3"
    assert not (run.path / "model").is_symlink()
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("mine.txt", "mine")]


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("folders", {"labels": "/etc"}),
        ("folders", {"labels": "../elsewhere"}),
        ("folders", {"labels": "results/../../elsewhere"}),
        ("folders", {"labels": "results/.."}),
        ("folders", {"labels": "results\\..\\.."}),
        ("folders", {"surprise": "steps/surprise-1"}),
        ("name", "../k3"),
        ("name", ".."),
        ("current", "k4"),
    ],
)
def test_a_manifest_that_names_what_is_not_in_its_folder_is_refused(run: RunFolder, where: str, value: object) -> None:
    publish(run, "k3")
    path = run.path / "manifest.json"
    content = json.loads(path.read_text())
    if where == "folders":
        content["results"]["k3"]["folders"] = value
    elif where == "name":
        content["results"][value] = content["results"]["k3"]
    else:
        content["current"] = value
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"manifest.json is damaged at"):
        RunFolder.open(run.path)


def test_two_threads_may_write_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    with ThreadPoolExecutor(1) as other, written_atomically(path) as temporary:
        temporary.write_text("the first to begin")
        other.submit(write_text, path, "the first to end").result()
        assert path.read_text() == "the first to end"
    assert path.read_text() == "the first to begin"
    assert [*tmp_path.iterdir()] == [path]
