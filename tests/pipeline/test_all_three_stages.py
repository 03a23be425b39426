"""A run through all three stages, from scratch; and what becomes of a result that fails a check."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from small_settings import tiny_stages
from typer.testing import CliRunner

from spice.cli import app
from spice.errors import UserError
from spice.pipeline import cluster, refine, resume
from spice.presets import joint_on_cpu
from spice.runs import open_result, read_labels
from spice.runs.artifacts import ENCODER, FEATURES, REFINED_FEATURES
from spice.runs.editor import Editor
from spice.runs.edits import undo
from spice.settings import AugmentSettings, JointSettings, RunSettings
from spice.stages.groups.given_labels import apply_labels
from spice.stages.model import TrainedModel

JOINT = JointSettings(
    steps=6, labeled=8, unlabeled=8, ema=None, learning_rate=0.01, augment=AugmentSettings(operations=2)
)


def settings(*, joint: JointSettings | None, encoder: str = "scratch", size: int = 16) -> RunSettings:
    """Tiny stages: what is tested here is how they hang together."""
    return tiny_stages(feature_epochs=3, heads=6, epochs=8, threshold=0.3, joint=joint, encoder=encoder, size=size)


@pytest.fixture(scope="module")
def two_stages(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("two") / "run"
    cluster(shapes, settings(joint=None), out)
    return out


def test_a_run_from_scratch_goes_through_all_stages(
    shapes: Path, tmp_path: Path, set_failed_checks: Callable[[list[str]], None]
) -> None:
    set_failed_checks([])
    summary = cluster(shapes, settings(joint=JOINT), tmp_path / "run")
    assert summary.features is not None
    assert summary.joint is not None
    assert summary.features.method == "simclr"
    assert len(summary.joint.loss) == 6
    assert summary.joint.used
    result = open_result(tmp_path / "run")
    refined = np.load(result / REFINED_FEATURES)
    assert not np.array_equal(refined, np.load(result / FEATURES)), "the encoder has learned"

    # What is saved is the network that gave the answer, whole: it predicts the same in a place of its own.
    labels = read_labels(tmp_path / "run")
    moved = Path(shutil.copytree(tmp_path / "run" / "model", tmp_path / "elsewhere"))
    shutil.rmtree(tmp_path / "run")
    predicted = TrainedModel.load(moved).predict_features(torch.from_numpy(refined))
    np.testing.assert_array_equal(predicted.cluster, labels.cluster)


def test_a_finished_run_can_be_refined_later_and_keeps_what_is_done(
    two_stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_failed_checks: Callable[[list[str]], None]
) -> None:
    run = Path(shutil.copytree(two_stages, tmp_path / "run", symlinks=True))
    before = open_result(run)
    trained = (before / ENCODER).stat().st_mtime_ns
    monkeypatch.setattr("spice.pipeline.commands.joint_on_cpu", lambda **_: JOINT)
    set_failed_checks([])
    refine(run)
    after = open_result(run)
    assert (after / ENCODER).stat().st_mtime_ns == trained
    assert after.refined
    assert set(after.manifest.results) == {before.name, after.name}


def test_a_rejected_refinement_leaves_the_stage_2_result(
    two_stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_failed_checks: Callable[[list[str]], None]
) -> None:
    run = Path(shutil.copytree(two_stages, tmp_path / "run", symlinks=True))
    before = read_labels(run)
    monkeypatch.setattr("spice.pipeline.commands.joint_on_cpu", lambda **_: JOINT)
    set_failed_checks(["neighbor agreement fell from 0.90 to 0.50"])
    summary = refine(run)
    after = read_labels(run)
    np.testing.assert_array_equal(after.cluster, before.cluster)
    np.testing.assert_array_equal(after.reliability, before.reliability)
    told = {warned.name: warned.text for warned in summary.warnings}
    assert "keeping the stage-2 result: neighbor agreement fell" in told["RefinementRejectedWarning"]


def test_without_checks_joint_training_is_always_used(
    shapes: Path, tmp_path: Path, set_failed_checks: Callable[[list[str]], None]
) -> None:
    set_failed_checks(["neighbor agreement fell from 0.90 to 0.50"])
    unchecked = settings(joint=JOINT.model_copy(update={"checks": False}))
    summary = cluster(shapes, unchecked, tmp_path / "run")
    assert summary.joint is not None
    assert summary.joint.used
    assert summary.joint.failed_checks
    assert "RefinementRejectedWarning" not in [warned.name for warned in summary.warnings]


def test_labels_that_the_user_gives_are_learned_and_name_the_clusters(
    two_stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_failed_checks: Callable[[list[str]], None]
) -> None:
    run = Path(shutil.copytree(two_stages, tmp_path / "run", symlinks=True))
    labels = read_labels(run)
    largest = int(np.bincount(labels.cluster).argmax())
    chosen = np.flatnonzero(labels.cluster == largest)[:3]
    monkeypatch.setattr("spice.pipeline.commands.joint_on_cpu", lambda **_: JOINT)
    set_failed_checks([])
    without = refine(run).joint
    assert without is not None
    assert without.given == 0
    apply_labels(Editor(run), {labels.path[row]: "mine" for row in chosen})
    summary = refine(run)
    assert summary.joint is not None
    assert summary.joint.given == 3
    assert list(open_result(run).groups.names.values()) == ["mine"]
    assert open_result(run).groups.by_person[chosen].all()
    assert refine(run).result == summary.result  # what was given before stays given, and what is done stays done


def test_labels_that_the_clusters_do_not_tell_apart_are_refused_and_change_nothing(
    two_stages: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(two_stages, tmp_path / "run", symlinks=True))
    labels = read_labels(run)
    one, other = np.flatnonzero(labels.cluster == np.bincount(labels.cluster).argmax())[:2]
    given = tmp_path / "given.csv"
    given.write_text(f"path,label\n{labels.path[one]},mine\n{labels.path[other]},yours\n")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != ".holder"}
    with pytest.raises(UserError, match="are both in group"):
        CliRunner().invoke(app, ["refine", str(run), "--labels", str(given)], catch_exceptions=False)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != ".holder"} == before
    assert resume(run).joint is None  # nothing of the refused command is left to be resumed


def test_labels_are_asked_for_before_the_long_work(shapes: Path, tmp_path: Path) -> None:
    wrong = settings(joint=JOINT).model_copy(update={"given": {"disc/900.png": "disc"}})
    with pytest.raises(UserError, match=r"there is a label for disc/900\.png, but no such image"):
        cluster(shapes, wrong, tmp_path / "other")
    assert not list((tmp_path / "other").rglob("encoder.safetensors"))


def test_labels_that_come_with_the_first_command_name_groups_and_are_learned(
    shapes: Path, tmp_path: Path, set_failed_checks: Callable[[list[str]], None]
) -> None:
    set_failed_checks([])
    given = {"given": {"disc/0.png": "round", "disc/1.png": "round"}}
    summary = cluster(shapes, settings(joint=JOINT).model_copy(update=given), tmp_path / "run")
    assert summary.joint is not None
    assert summary.joint.given == 2
    groups = open_result(tmp_path / "run").groups
    assert list(groups.names.values()) == ["round"]
    assert groups.by_person.sum() == 2
    undo(tmp_path / "run")  # a finished run stays as its user left it
    before = open_result(tmp_path / "run").groups.by_person.sum()
    resume(tmp_path / "run")
    assert open_result(tmp_path / "run").groups.by_person.sum() == before == 0


def test_the_command_line_takes_labels(
    two_stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_failed_checks: Callable[[list[str]], None]
) -> None:
    run = Path(shutil.copytree(two_stages, tmp_path / "run", symlinks=True))
    monkeypatch.setattr("spice.pipeline.commands.joint_on_cpu", lambda **_: JOINT)
    set_failed_checks([])
    table = tmp_path / "some.csv"
    table.write_text(f"path,label\n{read_labels(run).path[0]},mine\n", encoding="utf-8")
    done = CliRunner().invoke(app, ["refine", str(run), "--labels", str(table), "--json"])
    assert done.exit_code == 0, done.output
    assert '"given": 1' in done.output
    assert list(open_result(run).groups.names.values()) == ["mine"]


def test_an_encoder_that_cannot_be_trained_cannot_be_refined(shapes: Path, tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.npy"
    np.save(vectors, np.random.default_rng(0).normal(size=(96, 8)).astype(np.float32))
    given = settings(joint=JOINT, encoder=f"features:{vectors}", size=16).model_copy(update={"size": None})
    with pytest.raises(UserError, match="cannot be trained, so it cannot be refined"):
        cluster(shapes, given, tmp_path / "run")
    assert not (tmp_path / "run").exists(), "it is said before anything is done"


def test_the_preset_is_gentler_with_an_encoder_that_knows_photos() -> None:
    assert joint_on_cpu(pretrained=True).learning_rate < joint_on_cpu(pretrained=False).learning_rate
    assert joint_on_cpu(pretrained=True, minutes=5).minutes == 5


@pytest.mark.slow
def test_the_demo_ends_with_digits_in_their_groups(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from spice.cli import main; main()", "demo", str(tmp_path / "demo")],
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("all images"))
    assert float(line.split()[3]) >= 0.93, done.stdout
    assert (tmp_path / "demo" / "digits.spice" / "report.html").stat().st_size > 100_000
    assert len(list((tmp_path / "demo" / "groups-0").rglob("*.png"))) == 1797
