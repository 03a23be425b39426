"""How the encoder computes is decided once for a run, recorded, and kept by all that comes later."""

import json
from pathlib import Path

import pytest
from small_settings import with_few_heads

from spice.errors import UserError
from spice.models.encoders import precision_of
from spice.pipeline import cluster, resolve, resume
from spice.presets import standard
from spice.runs import open_result, read_manifest
from spice.settings import FixedPrecision, RunSettings
from spice.stages.model import TrainedModel


def settings(clusters: int = 3) -> RunSettings:
    return with_few_heads(standard(clusters=clusters, size=64), heads=3, epochs=2)


class Trial:
    """Stands in for the measurement, whose answer depends on the machine."""

    def __init__(self, answer: FixedPrecision) -> None:
        self.answer, self.count = answer, 0

    def __call__(self, *_: object) -> FixedPrecision:
        self.count += 1
        return self.answer


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch) -> Trial:
    found = Trial("int8")
    monkeypatch.setattr(resolve, "faster_precision", found)
    monkeypatch.setattr(resolve, "WORTH_A_TRIAL", 1)
    return found


def test_what_the_trial_found_is_recorded_and_kept(trial: Trial, shapes: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    summary = cluster(shapes, settings(), out, page=False)
    assert summary.views is not None
    assert summary.views.precision == "int8"
    result = open_result(out)
    assert read_manifest(out).results[result.name].settings["precision"] == "int8"
    model = TrainedModel.load(result.run / result.entry.folders["model"] / "model")
    assert precision_of(model.encoder) == "int8"

    # A machine on which floats are faster: the run stays as it is, for another number of clusters, too.
    trial.answer = "float32"
    before = trial.count
    assert resume(out).result == summary.result
    other = cluster(shapes, settings(4), out, page=False)
    assert trial.count == before == 1
    assert other.views is not None
    assert other.views.precision == "int8"


def test_what_the_user_asks_for_needs_no_trial(trial: Trial, shapes: Path, tmp_path: Path) -> None:
    floats = settings().model_copy(update={"precision": "float32"})
    summary = cluster(shapes, floats, tmp_path / "run", page=False)
    assert trial.count == 0
    assert summary.views is not None
    assert summary.views.precision == "float32"


def test_a_network_trained_here_computes_in_floats(shapes: Path, tmp_path: Path) -> None:
    integers = standard(clusters=3, encoder="scratch").model_copy(update={"precision": "int8"})
    with pytest.raises(UserError, match=r"encoders trained from scratch do not support 8-bit"):
        cluster(shapes, integers, tmp_path / "run")


def test_floats_and_integers_are_not_mixed(trial: Trial, shapes: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    integers = cluster(shapes, settings(), out, page=False)
    floats = cluster(shapes, settings().model_copy(update={"precision": "float32"}), out, page=False)
    assert floats.result != integers.result  # other features, other folders


def test_few_images_are_not_worth_a_trial(
    trial: Trial, shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolve, "WORTH_A_TRIAL", 10_000)
    summary = cluster(shapes, settings(), tmp_path / "run", last="features", page=False)
    assert trial.count == 0
    assert summary.views is not None
    assert summary.views.precision == "float32"
    pending = json.loads((tmp_path / "run" / "manifest.json").read_text())["pending"]
    assert pending["precision"] == "float32"
