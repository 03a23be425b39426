"""A few labels that the user gives a run to learn from; what `evaluate` holds the result against is another matter."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from spice.cli import app
from spice.errors import UserError
from spice.pipeline import cluster, refine
from spice.presets import standard
from spice.runs import read_labels
from spice.settings import AugmentSettings, FeatureSettings, JointSettings, RunSettings

JOINT = JointSettings(
    steps=2, labeled=8, unlabeled=8, ema=None, learning_rate=0.01, augment=AugmentSettings(operations=2)
)


def settings(*, joint: JointSettings | None) -> RunSettings:
    usual = standard(clusters=4, encoder="scratch", size=16)
    features = FeatureSettings(method="simclr", network="resnet10", stem="plain", width=8, epochs=1, batch=32)
    heads = usual.heads.model_copy(update={"heads": 4, "epochs": 4})
    reliability = usual.reliability.model_copy(update={"threshold": 0.3})
    return usual.model_copy(update={"features": features, "heads": heads, "reliability": reliability, "joint": joint})


@pytest.fixture(scope="module")
def two_stages(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("two") / "run"
    cluster(shapes, settings(joint=None), out)
    return out


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
    with pytest.raises(UserError, match=r"a label is given for disc/900\.png, which is none of the images"):
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
