"""What each command does, says, and ends with."""

import contextlib
import csv
import io
import itertools
import json
import logging
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import typer
from PIL import Image
from rich.console import Console
from rich.progress import Progress as Bars

from spice.cli.cluster import default_out, last_stage
from spice.cli.running import _columns, _ProgressBars, interruptible, show_progress, stoppable
from spice.cli.summary import finish, show_summary
from spice.cli.why import _groups, _verdict
from spice.errors import NothingTrustworthyError, one_line
from spice.runs import RunFolder, open_result, summarize
from spice.runs.explain_image import ImageExplanation
from spice.runs.records import ClusteringStats, JointResult

Spice = Callable[..., Any]


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_cluster_tells_a_whole_story(
    spice: Spice, shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = spice("cluster", shapes, "-k", "4", "--size", "64")
    assert ended.code == 0
    for words in (
        "images     96",
        "encoder    lite0, images at 64 px",
        "group",
        "chance   ",
        "are in the right group, if images that look alike to the",
        "time   ",
    ):
        assert words in ended.out
    assert "spice export shapes.spice" in ended.out
    assert len((tmp_path / "shapes.spice" / "labels.csv").read_text().splitlines()) == 97
    again = spice("cluster", shapes, "-k", "4", "--size", "64")
    assert again.out == ended.out
    other = spice("cluster", shapes, "-k", "5", "--size", "64")
    assert other.code == 0
    rows = json.loads(spice("runs", "shapes.spice", "--json").out)
    assert [(row["clusters"], row["current"]) for row in rows] == [(4, False), (5, True)]
    monkeypatch.setenv("COLUMNS", "120")  # a line per result
    listed = spice("runs", "shapes.spice", "--use", rows[0]["name"]).out.splitlines()
    assert listed[1].startswith(f"* {rows[0]['name']}")
    assert spice("runs", "shapes.spice", "--remove", rows[0]["name"]).code == 2  # the current one
    assert len(spice("runs", "shapes.spice", "--remove", rows[1]["name"]).out.splitlines()) == 2
    assert spice("resume", "shapes.spice").out == ended.out


def test_resume_prints_the_summary_again(spice: Spice, run: Path) -> None:
    found = json.loads(spice("resume", run, "--json").out)
    assert found["images"] == 96
    assert [cluster["cluster"] for cluster in found["clusters"]] == [0, 1, 2, 3]
    assert found["seconds"]["encode"] > 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["cluster", "nowhere", "-k", "4"], 2, "there is no file or folder nowhere"),
        (["cluster", "empty", "-k", "4"], 3, "contains no files"),
        (["cluster", "notes", "-k", "4"], 3, "contains no readable image"),
        (["cluster", "notes", "-k", "4", "--encoder", "vgg"], 2, "unknown encoder 'vgg'"),
        (["cluster", "notes", "-k", "1"], 2, "need at least 2 groups, got -k 1"),
        (
            ["cluster", "a.jpg", "b.jpg", "-k", "4"],
            2,
            "got 2 paths, but cluster takes one; pass their folder, or put a",
        ),
        (["cluster", "notes", "-k", "many"], 2, "-k takes a number such as 10 or a range such as 5:40"),
        (["cluster", "notes", "-k", "9:4"], 2, "expected a range such as 5:40, starting at 2 or more; got 9:4"),
        (["cluster", "notes", "-k", "4", "--cut", "4"], 2, "-k and --cut both set the number of groups"),
        (["cluster", "notes", "-k", "4", "--preset", "fast"], 2, "unknown preset 'fast'; choose quick, standard"),
        (["cluster", "notes", "--preset", "paper:mnist"], 2, "the paper has no data set 'mnist'"),
        (["cluster", "notes", "-k", "4", "--stages", "1-4"], 2, "unknown stage '4'; use 1 (features)"),
        (["cluster", "notes", "-k", "4", "--minutes", "5"], 2, "--minutes limits joint training; add --refine"),
        (
            ["cluster", "notes", "-k", "4", "--out", "notes/notes.txt/run"],
            2,
            "cannot create the folder notes/notes.txt/run",
        ),
        (["resume", "notes"], 2, "is not a run folder"),
        (["resume", "notes/notes.txt"], 2, "is not a run folder"),
        (["refine", "notes"], 2, "is not a run folder"),
        (["report", "notes/notes.txt"], 2, "is not a run folder"),
        (["predict", "notes/notes.txt", "notes"], 2, "notes/notes.txt is neither a run folder nor a model folder"),
        (["why", "notes", "a.png"], 2, "is not a run folder"),
        (["export", "notes", "groups", "--as", "folders"], 2, "is not a run folder"),
        (
            ["export", "notes", "x", "--as", "csv", "--keep", "0.9"],
            2,
            "--keep sets the accuracy for --kept; add --kept",
        ),
        (
            ["export", "notes", "x", "--as", "onnx", "--embed"],
            2,
            "--embed works with --as model only, not with --as onnx",
        ),
        (
            ["export", "notes", "x", "--as", "csv", "--copy"],
            2,
            "--copy works with --as folders, imagefolder, fiftyone only",
        ),
        (["export", "notes", "x", "--as", "model", "--kept"], 2, "--as model exports no images; leave out --kept"),
        (["evaluate", "notes", "--truth", "folders"], 2, "is not a run folder"),
        (["watch", "nowhere"], 2, "there is no folder nowhere to watch"),
        (["watch", "notes"], 2, "there is no run folder notes.spice; choose another with --run"),
        (["predict", "notes", "notes"], 2, "notes is neither a run folder nor a model folder"),
    ],
)
def test_mistakes_are_one_line_with_the_way_out(
    spice: Spice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("notes").mkdir()
    Path("notes/notes.txt").write_text("no image")
    ended = spice(*arguments)
    assert ended.code == code
    assert ended.err.startswith("spice: ")
    assert words in ended.err
    assert len([line for line in ended.err.splitlines() if not line.startswith("reading images")]) == 1
    assert not Path("nowhere.spice").exists()


@pytest.mark.parametrize("arguments", ["cluster", "cluster . -k 1", "export a b --as c", "resume"])
def test_wrong_usage_ends_with_two(spice: Spice, arguments: str) -> None:
    assert spice(*arguments.split()).code == 2


def test_nothing_trustworthy_has_an_exit_code_of_its_own(session_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nothing = summarize(open_result(session_run)).model_copy(update={"reliable": 0})
    with pytest.raises(NothingTrustworthyError, match=r"no image is reliable, so the groups are guesses") as error:
        finish(nothing, as_json=False)
    assert error.value.exit_code == 4
    assert "group" in capsys.readouterr().out  # the summary is shown all the same


@pytest.mark.parametrize(
    ("images", "out"),
    [
        ("photos", "photos.spice"),
        ("a/b/photos.tar.gz", "photos.spice"),
        ("lists/photos.csv", "photos.spice"),
        ("photos/*.jpg", "photos-jpg.spice"),
    ],
)
def test_the_run_folder_is_named_after_the_images(images: str, out: str) -> None:
    assert default_out(images) == Path(out)


@pytest.mark.parametrize(
    ("stages", "last"),
    [("features", "features"), ("1", "features"), ("1-2", "heads"), ("features, heads", "heads"), ("2", "heads"),
     ("1-3", "joint"), ("features,heads,joint", "joint"), ("3", "joint")],
)  # fmt: skip
def test_stages_are_given_by_name_or_number(stages: str, last: str) -> None:
    assert last_stage(stages) == last


def test_a_run_that_was_asked_to_stop_says_how_to_go_on(spice: Spice, shapes: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    ended = spice("cluster", shapes, "-k", "4", "--size", "64", "--stages", "features", "--out", run)
    assert ended.code == 0
    assert "stopped    before the labels, as requested; resume with:" in ended.out
    assert f"spice resume {run}\n" in ended.out, "a command is not broken"
    assert not (run / "labels.csv").exists()
    assert spice("export", run, tmp_path / "groups", "--as", "folders").code == 2
    assert "chance   " in spice("resume", run).out


def test_the_summary_tells_what_became_of_joint_training(session_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = summarize(open_result(session_run))

    def shown(joint: JointResult) -> str:
        show_summary(found.model_copy(update={"joint": joint}), as_json=False)
        told = capsys.readouterr().out.partition("refined    ")[2].partition("\ntime")[0]
        return " ".join(told.split())

    before = ClusteringStats(
        neighbor_agreement=0.91, prior_neighbor_agreement=0.91, chance_agreement=0.25, confident=0.9, loss=1.5, empty=0
    )
    joint = JointResult(
        labeled=80, given=0, moved=3, loss=[1.0], taught=[0.5], before=before,
        after=before.model_copy(update={"neighbor_agreement": 0.95}), failed_checks=[], used=True,
    )  # fmt: skip
    assert shown(joint) == (
        "yes: it learned from 80 labels; 3 images moved to another group; neighbor agreement rose from 0.910 to 0.950"
    )
    rejected = joint.model_copy(update={"failed_checks": ["agreement fell", "clusters are empty"], "used": False})
    assert shown(rejected) == (
        "no: joint training was rejected, keeping the stage-2 result (agreement fell; clusters are empty)"
    )


def test_runs_fit_a_narrow_terminal(spice: Spice, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(columns: int) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        return [line.rstrip() for line in spice("runs", run).out.splitlines()]

    wide, narrow = listed(100), listed(60)
    assert (len(wide), len(narrow)) == (2, 4)
    assert max(map(len, narrow)) <= 60
    assert " ".join(narrow).split() == " ".join(wide).split(), "nothing is left out"


def test_predict_writes_a_table_to_the_next_program(spice: Spice, run: Path, shapes: Path) -> None:
    ended = spice("predict", run, shapes / "disc")
    rows = table(ended.out)
    assert ended.code == 0
    assert len(rows) == 24
    assert list(rows[0]) == [
        "path", "cluster", "chance", "confidence", "margin", "reliability", "reliable", "nearest_other_cluster",
        "similarity", "unlike", "group", "name",
    ]  # fmt: skip
    assert len({row["cluster"] for row in rows}) == 1
    assert "images     24" in ended.err


@pytest.mark.parametrize("command", ["cluster", "predict"])
def test_help_shows_the_arguments_that_a_user_gives(spice: Spice, command: str) -> None:
    usage = next(line for line in spice(command, "--help").out.splitlines() if "Usage:" in line).split("[OPTIONS]")[1]
    assert usage.split() == {"cluster": ["IMAGES"], "predict": ["RUN", "IMAGES..."]}[command]


def test_predict_takes_several_images(spice: Spice, run: Path, shapes: Path) -> None:
    images = [str(shapes / "disc" / "0.png"), str(shapes / "ring" / "1.png")]
    rows = table(spice("predict", run, *images).out)
    assert [row["path"] for row in rows] == images
    assert [row["cluster"] for row in rows] == [table(spice("predict", run, one).out)[0]["cluster"] for one in images]


def test_predict_shows_a_short_table_on_a_terminal(
    spice: Spice, run: Path, shapes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = table(spice("predict", run, shapes / "disc").out)
    group = rows[0]["group"]
    assert spice("name", run, group, "round things").code == 0
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for source, called in ((run, f"{group} round things"), (run / "model", f"group {group}")):
        lines = spice("predict", source, shapes / "disc").out.splitlines()
        assert lines[0].split() == ["image", "group", "chance"]
        assert lines[1].split() == [rows[0]["path"], *called.split(), f"{float(rows[0]['chance']):.0%}"]
        assert lines[11] == f"and {len(rows) - 10} more"
        counted = sum(row["group"] == group for row in rows)
        assert f"{called:<20}{counted:>8}" in lines
        assert max(map(len, lines[:-1])) <= 70
        assert "--out FILE.csv" in lines[-1]


def test_predict_takes_a_model_folder_and_writes_parquet(spice: Spice, run: Path, shapes: Path, tmp_path: Path) -> None:
    ended = spice("predict", run / "model", shapes / "disc" / "0.png", "--out", tmp_path / "new.parquet")
    assert ended.code == 0
    assert pq.read_table(tmp_path / "new.parquet").num_rows == 1
    assert spice("predict", run, shapes / "disc", "--out", tmp_path / "new.xlsx").code == 2


@pytest.mark.parametrize(
    "command",
    [
        ["cluster", "RUN", "--out", "NEW"],
        ["resume", "RUN"],
        ["refine", "RUN"],
        ["learn", "RUN"],
        ["predict", "RUN", "RUN"],
        ["watch", "RUN", "--run", "RUN", "--once"],
        ["open", "RUN", "--no-browser"],
        ["demo", "NEW"],
        ["bench", "frozen", "--estimate"],
    ],
    ids=lambda command: command[0],
)
def test_commands_that_compute_take_a_device(command: list[str], spice: Spice, run: Path, tmp_path: Path) -> None:
    paths = {"RUN": run, "NEW": tmp_path / "new"}
    ended = spice(*(paths.get(part, part) for part in command), "--device", "abacus")
    assert ended.code == 2
    assert "unknown device 'abacus'; use auto, cpu" in ended.err


def test_evaluate_reads_labels_and_changes_nothing_but_the_page(spice: Spice, run: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and not path.is_symlink()}
    ended = spice("evaluate", run, "--truth", "folders")
    assert ended.code == 0
    assert "k-means, all images" in ended.out
    scores = json.loads((run / "current" / "scores.json").read_text())
    assert scores["spice"]["acc"] > 0.9
    assert scores["reliable"]["images"] <= 96
    assert sorted(scores["classes"]) == ["bars", "disc", "ring", "tent"]
    assert np.array(scores["confusion"]["counts"]).sum() == 96
    assert "uses labels" in (run / "report.html").read_text()
    after = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and not path.is_symlink()}
    assert {path.name for path in after if after[path] != before.get(path)} == {
        "report.html",
        "scores.json",
        "truth.npy",
    }
    (tmp_path / "truth.csv").write_text("path,label\ndisc/0.png,round\nring/0.png,round\nbars/0.png,square\n")
    found = json.loads(spice("evaluate", run, "--truth", tmp_path / "truth.csv", "--json").out)
    assert (found["images"], found["without_label"]) == (3, 93)


def test_evaluate_scores_the_groups_before_and_after_edits(spice: Spice, run: Path) -> None:
    before = spice("evaluate", run, "--truth", "folders")
    assert "edits" not in before.out, "there are none"
    assert spice("merge", run, "0", "1").code == 0
    after = spice("evaluate", run, "--truth", "folders")
    assert after.out.startswith(before.out[: before.out.index("ACC matches")]), "the program's groups, as before"
    scores = json.loads((run / "current" / "scores.json").read_text())
    assert scores["edited"]["images"] == scores["spice"]["images"] == 96
    assert scores["edited"]["acc"] < scores["spice"]["acc"] - 0.2, "two classes are in one group"
    assert "after your edits" in after.out
    assert "before your edits" in after.out
    assert "After your edits" in (run / "report.html").read_text()
    assert spice("set-aside", run, "2").code == 0
    assert json.loads(spice("evaluate", run, "--truth", "folders", "--json").out)["edited"]["images"] < 96


def test_scores_are_told_and_kept_even_if_the_page_cannot_be_written(
    spice: Spice, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("no such font")

    monkeypatch.setattr("spice.report.rewrite_report", fail)
    ended = spice("evaluate", run, "--truth", "folders")
    assert ended.code == 0
    assert "k-means, all images" in ended.out
    assert ended.err == f"spice: warning: could not write the report (no such font); try: spice report {run}\n"
    assert (run / "current" / "scores.json").exists()


def test_export_links_to_the_originals(spice: Spice, run: Path, shapes: Path, tmp_path: Path) -> None:
    assert spice("export", run, tmp_path / "groups", "--as", "folders").code == 0
    links = list((tmp_path / "groups").rglob("*.png"))
    assert len(links) == 96
    assert {path.resolve() for path in links} == {path.resolve() for path in shapes.rglob("*.png")}
    again = spice("export", run, tmp_path / "groups", "--as", "folders")
    assert again.code == 2
    assert "already exists" in again.err


def test_export_of_reliable_images_only(spice: Spice, run: Path, tmp_path: Path) -> None:
    spice("export", run, tmp_path / "all.csv", "--as", "csv")
    spice("export", run, tmp_path / "some.csv", "--as", "csv", "--reliable")
    every, some = table((tmp_path / "all.csv").read_text()), table((tmp_path / "some.csv").read_text())
    assert [row for row in every if row["reliable"] == "1"] == some


@pytest.mark.slow
def test_images_in_an_archive_are_taken_out_of_it(spice: Spice, shapes: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "shapes.tar", "w") as archive:
        archive.add(shapes, "shapes")
    out = tmp_path / "run"
    assert spice("cluster", tmp_path / "shapes.tar", "-k", "4", "--size", "64", "--out", out).code == 0
    assert spice("export", out, tmp_path / "groups", "--as", "imagefolder").code == 0
    found = list((tmp_path / "groups").rglob("*.png"))
    assert len(found) == 96
    assert not any(path.is_symlink() for path in found)
    assert Image.open(found[0]).size == (48, 48)
    refused = spice("export", out, tmp_path / "tasks", "--as", "labelstudio")
    assert refused.code == 2


def test_export_says_when_an_image_has_gone(spice: Spice, run: Path, shapes: Path, tmp_path: Path) -> None:
    drawings = Path(shutil.copytree(shapes, tmp_path / "drawings"))
    RunFolder.open(run).update(source=str(drawings))
    (drawings / "disc" / "3.png").unlink()
    ended = spice("export", run, tmp_path / "groups", "--as", "folders")
    assert ended.code == 2
    assert "disc/3.png is no longer in" in ended.err
    drawings.rename(tmp_path / "elsewhere")
    for command in (["export", run, tmp_path / "groups", "--as", "folders"], ["resume", run]):
        ended = spice(*command)
        assert ended.code == 2
        assert f"no longer at {drawings}; if you moved them, run: spice cluster NEW_FOLDER --out {run}" in ended.err


def test_keywords_are_written_for_groups_with_a_name_and_the_others_are_counted(
    spice: Spice, run: Path, tmp_path: Path
) -> None:
    spice("name", run, "0", "birds")
    ended = spice("export", run, tmp_path / "sidecars", "--as", "xmp")
    sizes = [row["images"] for row in json.loads(spice("groups", run, "--json").out)]
    assert f"exported {sizes[0]} images" in ended.out
    assert ended.out.endswith(f"; left out {sum(sizes[1:])} in groups without a name\n")


def test_export_of_the_model_as_onnx(spice: Spice, run: Path, tmp_path: Path) -> None:
    ended = spice("export", run, tmp_path / "groups.onnx", "--as", "onnx")
    assert ended.code == 0
    assert "differ from torch by at most" in ended.out
    assert spice("export", run, tmp_path / "groups.onnx", "--as", "onnx").code == 2


def test_export_of_the_model_with_its_encoder(spice: Spice, run: Path, shapes: Path, tmp_path: Path) -> None:
    assert spice("export", run, tmp_path / "model", "--as", "model", "--embed").code == 0
    assert (tmp_path / "model" / "encoder.safetensors").exists()
    alone, whole = (table(spice("predict", source, shapes / "ring").out) for source in (tmp_path / "model", run))
    assert alone == [{name: row[name] for name in alone[0]} for row in whole], "a run knows names of groups besides"


def test_why_tells_why(spice: Spice, run: Path, shapes: Path) -> None:
    ended = spice("why", run, shapes / "tent" / "5.png")
    assert ended.code == 0
    assert ended.out.startswith("tent/5.png\ngroup      ")
    assert "of its 12 nearest images are in group" in ended.out
    found = json.loads(spice("why", run, "tent/5.png", "--json").out)
    assert found["agreeing"] + sum(found["others"].values()) == found["neighbors"] == 12
    assert spice("why", run, "5.png").code == 2


@pytest.mark.parametrize(
    ("agreeing", "reliable", "words"),
    [
        (96, True, "yes: 96 of its 100 nearest images are in group 3"),
        (95, False, "no: 95 of its 100 nearest images are in group 3; reliable means at least 96"),
    ],
)
def test_an_image_just_below_the_bar_reads_why(agreeing: int, reliable: bool, words: str) -> None:
    found = ImageExplanation.model_construct(
        cluster=3, group=3, name=None, by_person=False, agreeing=agreeing, neighbors=100, threshold=0.95,
        reliable=reliable,
    )  # fmt: skip
    assert _verdict(found) == words
    merged = found.model_copy(update={"group": 1})
    assert _verdict(merged) == words.replace("are in", "are predicted in")


@pytest.mark.parametrize(("rank", "told"), [("0", 1), ("1", 0)])
def test_of_several_processes_that_are_stopped_the_first_says_how_to_go_on(
    rank: str, told: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", rank)
    with pytest.raises(typer.Exit) as ended, stoppable("the work is kept"):
        raise KeyboardInterrupt
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err.count("spice: stopped; the work is kept") == told


def test_the_chance_is_that_of_the_group_that_people_see() -> None:
    found = ImageExplanation.model_construct(cluster=3, group=5, name="birds", by_person=True, chance=0.999)
    assert _groups(found) == [
        "group      5 (birds), set by hand",
        "chance     over 99% that this is the right group",
        "predicted  3",
    ]
    as_predicted = ImageExplanation.model_construct(cluster=3, group=3, name=None, by_person=False, chance=0.876)
    assert _groups(as_predicted) == ["group      3", "chance     88% that this is the right group"]
    aside = ImageExplanation.model_construct(cluster=3, group=-1, name=None, by_person=False, chance=0.0)
    assert _groups(aside) == ["group      none", "predicted  3"]


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(shapes: Path, tmp_path: Path, spice: Spice) -> None:
    # Where tests run in the background, Ctrl-C is ignored, and processes inherit that.
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program += "from spice.cli import main; main()"
    command = [sys.executable, "-c", program, "cluster", str(shapes), "-k", "4"]
    out = tmp_path / "run"
    with subprocess.Popen([*command, "--out", str(out)], stderr=subprocess.PIPE, text=True) as process:
        while not (out / "manifest.json").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read()
    assert process.returncode == 130
    assert said.splitlines()[-1] == f"spice: stopped; finished work is kept. Resume with: spice resume {out}"
    assert "Traceback" not in said
    assert spice("resume", out).code == 0
    assert (out / "labels.csv").exists()


def test_ctrl_c_that_a_library_swallows_stops_the_command_at_its_next_progress(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def command() -> None:
        with stoppable("nothing was written") as progress:
            with contextlib.suppress(KeyboardInterrupt):  # as pyarrow does while it imports pandas
                signal.raise_signal(signal.SIGINT)
            progress("encoding", 1, 2)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(typer.Exit) as ended:
            command()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err.splitlines()[-1] == "spice: stopped; nothing was written"


def test_settings_of_a_run_are_found_by_the_name_of_its_images(
    spice: Spice, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.parent)
    ended = spice("settings", "shapes")
    assert ended.code == 0
    assert ended.out == spice("settings", run).out


def _press_ctrl_c(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_ctrl_c_during_predict_says_that_nothing_was_written(
    spice: Spice, run: Path, shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spice.estimator.SPICE.assess", _press_ctrl_c)
    ended = spice("predict", run, shapes, "--out", tmp_path / "new.csv")
    assert (ended.code, ended.out) == (130, "")
    assert ended.err.endswith("\nspice: stopped; nothing was written\n")
    assert not (tmp_path / "new.csv").exists()


def test_ctrl_c_during_any_command_says_that_it_stopped(
    spice: Spice, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spice.runs.image_flags.outliers_of", _press_ctrl_c)
    ended = spice("outliers", run)
    assert (ended.code, ended.out, ended.err) == (130, "", "\nspice: stopped\n")


def test_stopped_before_anything_was_written_there_is_nothing_to_resume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "photos.spice"
    with pytest.raises(typer.Exit), interruptible(run):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "\nspice: stopped; nothing was written\n"
    run.mkdir()
    with pytest.raises(typer.Exit), interruptible(run):
        raise KeyboardInterrupt
    assert f"finished work is kept. Resume with: spice resume {run}" in capsys.readouterr().err


def test_a_long_error_of_another_library_ends_with_a_sentence() -> None:
    first = "The hub cannot be reached, and no copy of the model is on this computer"
    assert one_line(OSError(f"{first}.\n{'Check the connection, or see the manual, ' * 6}")) == first
    assert one_line(OSError("no end " * 100)).endswith("no end n...")
    assert one_line(OSError("One. Two.")) == "One. Two."


def test_messages_of_spice_are_shown_once_and_those_of_other_libraries_are_left_to_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # pytest's
    for _ in range(2):  # a second command in the same process
        with show_progress():
            logging.getLogger("spice").info("loading the encoder")
            logging.getLogger("another").warning("retrying")
    assert capsys.readouterr().err.count("loading the encoder") == 2
    assert not logging.getLogger("spice").handlers


def test_progress_on_a_terminal_says_how_much_time_is_left_and_hides_what_was_shown_before_the_first_step() -> None:
    shown, clock = io.StringIO(), itertools.count(step=10)
    console = Console(file=shown, width=90, force_terminal=True, no_color=True)
    with Bars(*_columns(), console=console, auto_refresh=False, get_time=lambda: float(next(clock))) as bars:
        progress = _ProgressBars(bars)
        bars.refresh()
        before = shown.getvalue()
        for done in (0, 100, 200):
            progress("reading images", done, 1000, {"problems": 3})
        bars.refresh()
        after = shown.getvalue().removeprefix(before)
    assert "starting" in before
    assert "starting" not in after
    assert "200/1,000" in after
    assert re.search(r"\d+ (s|min \d\d s) left", after)
    assert "problems 3" in after
