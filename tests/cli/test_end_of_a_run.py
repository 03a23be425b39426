"""What a run prints at its end: wrapped at words, details on request, and one thing to do."""

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spice.cli.cluster import default_out
from spice.cli.options import find_run
from spice.cli.summary import offer_page, show_summary
from spice.runs.records import Record, StepResult, StepWarning
from spice.runs.result import open_result
from spice.runs.summary import RunSummary, summarize
from spice.trust.grade import Grade


@pytest.fixture(scope="module")
def finished(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> RunSummary:
    from spice.pipeline import cluster
    from spice.presets import standard

    out = tmp_path_factory.mktemp("a place with a rather long name, as such places are") / "run"
    (shapes / "film.mp4").write_bytes(b"\0\0\0\x20ftypisom" + bytes(40))
    try:
        return cluster(str(shapes), standard(clusters=4, size=64), out)
    finally:
        (shapes / "film.mp4").unlink()


def test_the_summary_wraps_at_words_and_keeps_details_for_those_who_ask(
    finished: RunSummary, capsys: pytest.CaptureFixture[str]
) -> None:
    long = finished.model_copy(update={"warnings": [StepWarning(name="SomeWarning", text="a word " * 30)]})
    show_summary(long, as_json=False)
    plain = capsys.readouterr().out
    lines = plain.splitlines()
    assert all(len(line) <= 80 or " " not in line[11:].strip() or finished.run in line for line in lines)
    assert sum("a word" in line for line in lines) > 2
    assert "images     96; 1 skipped: 1 video" in plain
    assert "loss" not in plain
    assert "epoch" not in plain
    show_summary(long, as_json=False, details=True)
    detailed = capsys.readouterr().out
    assert "10 trained; head" in detailed
    assert "loss" in detailed
    slow = finished.model_copy(update={"seconds": {"howmany": 2.0, "kmeans": 3.0, "report": 4.0}})
    show_summary(slow, as_json=False, details=True)
    assert "(number of groups 2 s, k-means 3 s, report 4 s)" in capsys.readouterr().out


def test_the_summary_says_that_it_shows_the_groups_before_edits(
    finished: RunSummary, capsys: pytest.CaptureFixture[str]
) -> None:
    show_summary(finished, as_json=False)
    assert "edited" not in capsys.readouterr().out
    show_summary(finished.model_copy(update={"edited": True}), as_json=False)
    told = " ".join(capsys.readouterr().out.split())
    assert f"edited these are the groups before your edits; the current ones: spice groups '{finished.run}'" in told


def test_where_the_collection_is_too_large_for_a_csv_file_the_summary_says_how_to_get_one(
    finished: RunSummary, capsys: pytest.CaptureFixture[str]
) -> None:
    show_summary(finished, as_json=False)
    assert "--as csv" not in capsys.readouterr().out
    table = Path(finished.run) / "labels.csv"
    where = table.readlink()
    table.unlink()
    try:
        show_summary(finished, as_json=False)
    finally:
        table.symlink_to(where)
    printed = " ".join(capsys.readouterr().out.split())
    assert "labels.parquet, model/ and more" in printed
    assert "labels.csv --as csv" in printed
    assert "/labels.csv" not in printed


def test_the_table_shows_chance_verdict_and_name_and_the_line_below_it_where_to_look_first(
    finished: RunSummary, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = finished.clusters
    weak = first.model_copy(
        update={"grade": Grade.WEAK, "chance": 0.4, "name": "a name that is far too long for a table"}
    )
    show_summary(finished.model_copy(update={"clusters": [weak, *others]}), as_json=False)
    header, row = (capsys.readouterr().out.partition("\ngroup")[2].splitlines())[:2]
    assert header.split() == ["images", "chance", "verdict", "similar", "to", "name"]
    assert row.split()[2:5] == ["40%", "####", "weak"]
    assert "a name that" in row
    show_summary(finished.model_copy(update={"clusters": [weak, *others]}), as_json=False)
    assert "weak       group 0 resembles several other groups: look there first" in capsys.readouterr().out


def test_where_most_groups_are_weak_fewer_are_suggested(
    finished: RunSummary, capsys: pytest.CaptureFixture[str]
) -> None:
    weak = [cluster.model_copy(update={"grade": Grade.WEAK}) for cluster in finished.clusters]
    show_summary(finished.model_copy(update={"clusters": weak}), as_json=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{len(weak)} of {len(weak)} groups resemble several other groups: fewer groups (a smaller -k)" in shown
    assert "look there first" not in shown


def test_a_narrow_terminal_breaks_no_command_and_leaves_out_remarks_that_do_not_fit(
    finished: RunSummary, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = finished.model_copy(update={"run": "some photos.spice"})
    for columns, fit in ((60, False), (100, True)):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TTY_COMPATIBLE", "1")  # rich: as on a terminal
        show_summary(short, as_json=False)
        lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
        assert [line for line in lines if len(line) > columns and "spice " not in line] == []
        after = lines[next(row for row, line in enumerate(lines) if line.startswith("next")) :]
        assert [("  # " in line) == fit for line in after] == [True] * len(after)
        assert "           spice export 'some photos.spice' groups --as folders" in "\n".join(after)


def test_groups_without_a_reliable_image_are_not_listed_twice(
    finished: RunSummary, capsys: pytest.CaptureFixture[str]
) -> None:
    warnings = [
        StepWarning(name="NoReliableImagesWarning", text="ten groups"),
        StepWarning(name="Other", text="read me"),
    ]
    show_summary(finished.model_copy(update={"warnings": warnings}), as_json=False)
    shown = capsys.readouterr().out
    assert "read me" in shown
    assert "ten groups" not in shown


@pytest.mark.parametrize(("answer", "opened"), [("", True), ("y", True), ("n", False), (None, False)])
def test_in_a_terminal_the_page_is_offered(
    answer: str | None,
    opened: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "report.html").write_text("page")
    seen: list[str] = []
    monkeypatch.setattr("webbrowser.open", seen.append)
    monkeypatch.setattr(sys, "stdin", terminal := io.StringIO("" if answer is None else answer + "\n"))
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    offer_page(tmp_path, None)
    printed = capsys.readouterr().out
    assert f"report     {(tmp_path / 'report.html').resolve().as_uri()}" in printed
    assert "Open the report? [Y/n]" in printed
    assert bool(seen) == opened


def test_elsewhere_nothing_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "report.html").write_text("page")
    offer_page(tmp_path, None)
    assert capsys.readouterr().out.endswith("/report.html\n")


def test_a_warning_that_joint_training_made_stale_is_not_told(finished: RunSummary) -> None:
    result = open_result(Path(finished.run))

    def warned(step: str, name: str, text: str) -> Record[StepResult]:
        return result.records[step].model_copy(update={"warnings": [StepWarning(name=name, text=text)]})

    records = dict(result.records)
    records["heads"] = warned("heads", "NoReliableImagesWarning", "62 images")
    records["labels"] = warned("labels", "NoReliableImagesWarning", "63 images")
    result.__dict__["records"] = records
    assert [warning.text for warning in summarize(result).warnings] == ["63 images"]
    records["heads"] = warned("heads", "UnstableHeadsWarning", "heads disagree")
    assert [warning.text for warning in summarize(result).warnings] == ["heads disagree", "63 images"]


@pytest.mark.parametrize(
    ("images", "out"),
    [
        ("photos/summer", "summer.spice"),
        ("photos.zip", "photos.spice"),
        ("scans/**/*.tif", "scans-tif.spice"),
        ("scans/*.png", "scans-png.spice"),
        ("a/b/IMG_20*.jpg", "b-IMG_20-jpg.spice"),
        ("/*.jpg", "images-jpg.spice"),
    ],
)
def test_every_source_has_a_run_folder_of_its_own(images: str, out: str) -> None:
    assert default_out(images) == Path(out)


def test_a_glob_in_the_current_folder_is_called_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "holiday").mkdir()
    monkeypatch.chdir(tmp_path / "holiday")
    assert default_out("*.jpg") == Path("holiday-jpg.spice")


def test_the_folder_of_the_images_stands_for_the_run_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("photos", "photos.spice", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "photos.spice" / "manifest.json").touch()
    assert find_run(Path("photos")) == Path("photos.spice")
    assert find_run(Path("photos/")) == Path("photos.spice")
    assert find_run(tmp_path / "photos") == Path("photos.spice")
    assert find_run(Path("photos.spice")) == Path("photos.spice")
    assert find_run(Path("other")) == Path("other")
    monkeypatch.chdir("/")
    assert find_run(tmp_path / "photos") == tmp_path / "photos.spice"


def test_why_finds_the_run_beside_the_images(finished: RunSummary, spice: Callable[..., Any]) -> None:
    run = Path(finished.run)
    beside = run.with_name("shapes.spice")
    run.rename(beside)
    try:
        told = spice("why", run.with_name("shapes"), "disc/3.png")
        assert told.code == 0
        assert "disc/3.png" in told.out
    finally:
        beside.rename(run)


def test_a_start_without_any_image_leaves_no_run_behind(tmp_path: Path, spice: Callable[..., Any]) -> None:
    empty, notes = tmp_path / "empty", tmp_path / "notes"
    empty.mkdir()
    notes.mkdir()
    (notes / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
    (notes / "scan.pdf").write_bytes(b"%PDF-1.7\n")
    told = spice("cluster", empty, "-k", 3, "--out", tmp_path / "empty.spice")
    assert told.code == 3
    assert not (tmp_path / "empty.spice").exists()
    told = spice("cluster", notes, "-k", 3, "--out", tmp_path / "notes.spice")
    assert told.code == 3
    assert "2 skipped: 1 PDF, 1 not an image" in told.err
    assert f"listed in {tmp_path / 'notes.spice' / 'problems.csv'}" in told.err
    assert [path.name for path in (tmp_path / "notes.spice").iterdir()] == ["problems.csv"]
    assert "scan.pdf,PDF" in (tmp_path / "notes.spice" / "problems.csv").read_text()
    again = spice("cluster", notes, "-k", 3, "--out", tmp_path / "notes.spice")
    assert again.code == 3, "the list is ours: it is not in the way of the next start"


def test_predict_on_an_unfinished_run_says_how_to_finish_it(
    finished: RunSummary, shapes: Path, tmp_path: Path, spice: Callable[..., Any]
) -> None:
    run = tmp_path / "half"
    spice("cluster", shapes, "-k", 4, "--out", run, "--stages", "1", "--preset", "quick")
    told = spice("predict", run, shapes)
    assert told.code == 2
    assert f"finish it with: spice resume {run}" in told.err
