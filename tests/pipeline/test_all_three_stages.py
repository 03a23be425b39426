"""A run through all three stages, from scratch; and what becomes of a doubtful result."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from spice.cli import app
from spice.errors import UserError
from spice.pipeline import cluster, refine
from spice.presets import joint_on_cpu, standard
from spice.runs import read_labels
from spice.settings import AugmentSettings, FeatureSettings, JointSettings, RunSettings
from spice.stages.model import TrainedModel

JOINT = JointSettings(
    steps=6, labeled=8, unlabeled=8, ema=None, learning_rate=0.01, augment=AugmentSettings(operations=2)
)


def settings(*, joint: JointSettings | None, encoder: str = "scratch", size: int = 16) -> RunSettings:
    """Tiny stages: what is tested here is how they hang together."""
    usual = standard(clusters=4, encoder=encoder, size=size)
    features = FeatureSettings(method="simclr", network="resnet10", stem="plain", width=8, epochs=3, batch=32)
    heads = usual.heads.model_copy(update={"heads": 6, "epochs": 8})
    reliability = usual.reliability.model_copy(update={"threshold": 0.3})
    return usual.model_copy(update={"features": features, "heads": heads, "reliability": reliability, "joint": joint})


@pytest.fixture(scope="module")
def two_stages(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("two") / "run"
    cluster(shapes, settings(joint=None), out)
    return out


def test_a_run_from_scratch_goes_through_all_stages(
    shapes: Path, tmp_path: Path, believing: Callable[..., None]
) -> None:
    believing(doubts=[])
    account = cluster(shapes, settings(joint=JOINT), tmp_path / "run")
    assert account.figures["features"]["method"] == "simclr"
    assert account.figures["joint"]["steps"] == 6
    assert account.figures["joint"]["doubts"] == []
    refined = np.load(tmp_path / "run" / "refined" / "features.npy")
    assert not np.array_equal(refined, np.load(tmp_path / "run" / "features.npy")), "the encoder has learned"

    # What is saved is the network that gave the answer, whole: it predicts the same in a place of its own.
    labels = read_labels(tmp_path / "run")
    moved = Path(shutil.copytree(tmp_path / "run" / "model", tmp_path / "elsewhere"))
    shutil.rmtree(tmp_path / "run")
    predicted = TrainedModel.load(moved).predict_features(torch.from_numpy(refined))
    np.testing.assert_array_equal(predicted.cluster, labels.cluster)


def test_a_finished_run_can_be_refined_later_and_keeps_what_is_done(
    two_stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, believing: Callable[..., None]
) -> None:
    run = Path(shutil.copytree(two_stages, tmp_path / "run"))
    trained = (run / "encoder.safetensors").stat().st_mtime_ns
    monkeypatch.setattr("spice.pipeline.joint_on_cpu", lambda **_: JOINT)
    believing(doubts=[])
    refine(run)
    assert (run / "encoder.safetensors").stat().st_mtime_ns == trained
    assert (run / "refined" / "joint.json").is_file()


def test_a_doubtful_refinement_leaves_the_second_stages_answer(
    two_stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, believing: Callable[..., None]
) -> None:
    run = Path(shutil.copytree(two_stages, tmp_path / "run"))
    before = read_labels(run)
    monkeypatch.setattr("spice.pipeline.joint_on_cpu", lambda **_: JOINT)
    believing(doubts=["agreement with neighbors fell from 0.9 to 0.5"])
    account = refine(run)
    after = read_labels(run)
    np.testing.assert_array_equal(after.cluster, before.cluster)
    np.testing.assert_array_equal(after.reliability, before.reliability)
    told = {warned.name: warned.text for warned in account.warnings}
    assert "agreement with neighbors fell" in told["RefinementRejectedWarning"]


def test_labels_that_the_user_gives_are_learned_and_name_the_clusters(
    two_stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, believing: Callable[..., None]
) -> None:
    run = Path(shutil.copytree(two_stages, tmp_path / "run"))
    labels = read_labels(run)
    largest = int(np.bincount(labels.cluster).argmax())
    chosen = np.flatnonzero(labels.cluster == largest)[:3]
    monkeypatch.setattr("spice.pipeline.joint_on_cpu", lambda **_: JOINT)
    believing(doubts=[])
    without = refine(run).figures["joint"]
    assert without["names"] == {}
    account = refine(run, labels={labels.path[row]: "mine" for row in chosen})
    assert account.figures["joint"]["names"] == {"mine": largest}
    assert account.figures["joint"]["given"] == 3
    done = (run / "refined" / "joint.json").stat().st_mtime_ns
    refine(run)  # what was given before stays given, and what is done stays done
    assert (run / "refined" / "joint.json").stat().st_mtime_ns == done


def test_labels_are_asked_for_before_the_long_work(shapes: Path, tmp_path: Path) -> None:
    given = {"given": {"disc/0.png": "disc"}}
    with pytest.raises(UserError, match=r"labels are learned by joint training: ask for it too \(--refine\)"):
        cluster(shapes, settings(joint=None).model_copy(update=given), tmp_path / "run")
    wrong = settings(joint=JOINT).model_copy(update={"given": {"disc/900.png": "disc"}})
    with pytest.raises(UserError, match=r"there is no image disc/900\.png for the given label"):
        cluster(shapes, wrong, tmp_path / "other")
    assert not (tmp_path / "other" / "encoder.safetensors").exists()


def test_the_command_line_takes_labels(
    two_stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, believing: Callable[..., None]
) -> None:
    run = Path(shutil.copytree(two_stages, tmp_path / "run"))
    monkeypatch.setattr("spice.pipeline.joint_on_cpu", lambda **_: JOINT)
    believing(doubts=[])
    table = tmp_path / "some.csv"
    table.write_text(f"path,label\n{read_labels(run).path[0]},mine\n", encoding="utf-8")
    done = CliRunner().invoke(app, ["refine", str(run), "--labels", str(table), "--json"])
    assert done.exit_code == 0, done.output
    assert '"mine"' in done.output


def test_an_encoder_that_cannot_be_trained_cannot_be_refined(shapes: Path, tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.npy"
    np.save(vectors, np.random.default_rng(0).normal(size=(96, 8)).astype(np.float32))
    given = settings(joint=JOINT, encoder=f"features:{vectors}", size=16).model_copy(update={"size": None})
    with pytest.raises(UserError, match="cannot be trained, so there is nothing to refine"):
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
