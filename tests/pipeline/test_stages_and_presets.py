"""Where a run stops and resumes, what its presets are, and what it says when a part of it fails."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from small_settings import tiny_stages

from spice.errors import UserError
from spice.pipeline import NoPageWarning, cluster, refine, resume
from spice.pipeline.steps import joint as joint_step
from spice.pipeline.steps import pictures as pictures_step
from spice.pipeline.steps import report as report_step
from spice.presets import PAPER, paper, preset, quick, standard
from spice.runs import open_result, read_labels
from spice.runs.artifacts import REFINED_FEATURES
from spice.settings import JointSettings, ReliabilitySettings, RunSettings
from spice.stages.joint.checks import RefinementRejectedWarning
from spice.stages.joint.sampling import Labeled
from spice.stages.model import TrainedModel

SETS = ("stl10", "cifar10", "cifar100-20", "tiny-imagenet", "imagenet-10", "imagenet-dog")


def tiny(joint: JointSettings | None = None) -> RunSettings:
    return tiny_stages(feature_epochs=2, heads=4, epochs=6, threshold=0.2, joint=joint)


JOINT = JointSettings(steps=3, labeled=8, unlabeled=8, ema=None, learning_rate=0.01)


def test_a_run_that_stops_after_a_stage_is_gone_on_with_as_if_it_had_not(
    shapes: Path, tmp_path: Path, set_failed_checks: Callable[[list[str]], None]
) -> None:
    set_failed_checks([])
    cluster(shapes, tiny(JOINT), tmp_path / "whole")
    run = tmp_path / "run"

    summary = cluster(shapes, tiny(JOINT), run, last="features")
    assert (summary.images, summary.reliable, summary.clusters) == (96, None, [])
    assert summary.stopped_before == "the labels"
    assert set(summary.seconds) == {"scan", "features", "encode", "views"}

    summary = cluster(shapes, tiny(JOINT), run, last="heads")
    assert summary.reliable is not None
    assert summary.joint is None
    assert summary.stopped_before == "joint training"
    assert not list((run / "steps").glob("joint-*"))
    second = read_labels(run)

    summary = resume(run)
    assert summary.joint is not None
    assert summary.stopped_before is None
    third, whole = read_labels(run), read_labels(tmp_path / "whole")
    np.testing.assert_array_equal(third.confidence, whole.confidence)
    assert not np.array_equal(third.confidence, second.confidence)

    # Asking for less afterwards takes nothing away.
    assert cluster(shapes, tiny(JOINT), run, last="features").joint is not None
    np.testing.assert_array_equal(read_labels(run).confidence, whole.confidence)


def test_how_long_joint_training_takes_is_told_before_the_heads_begin(
    shapes: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, set_failed_checks: Callable[[list[str]], None]
) -> None:
    set_failed_checks([])
    begun = list[str]()

    def progress(task: str, done: int, total: int, figures: object = None) -> None:
        begun.append(task)
        if task == "heads":
            assert "joint training will start after the heads and take about" in caplog.text

    with caplog.at_level(logging.INFO, logger="spice"):
        cluster(shapes, tiny(JOINT), tmp_path / "run", progress=progress)
    assert "heads" in begun
    caplog.clear()
    resume(tmp_path / "run")
    assert "joint training" not in caplog.text


def test_nothing_reliable_leaves_the_second_stages_answer(
    shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster(shapes, tiny(), tmp_path / "two")
    nothing = Labeled(torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.long))
    monkeypatch.setattr(joint_step, "labels_to_learn", lambda *_, **__: nothing)
    with pytest.warns(RefinementRejectedWarning, match="no image is reliable, so there is nothing to learn from"):
        summary = cluster(shapes, tiny(JOINT), tmp_path / "run")
    assert (tmp_path / "run" / "report.html").exists()
    assert summary.joint is not None
    assert not summary.joint.used
    np.testing.assert_array_equal(read_labels(tmp_path / "run").confidence, read_labels(tmp_path / "two").confidence)


@pytest.mark.parametrize(("step", "broken"), [(pictures_step, "write_pictures"), (report_step, "write_report")])
def test_a_page_that_cannot_be_made_is_a_warning_and_is_made_later(
    shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: ModuleType, broken: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no such font")

    with monkeypatch.context() as patch:
        patch.setattr(step, broken, fail)
        with pytest.warns(NoPageWarning, match=r"RuntimeError: no such font.*groups"):
            summary = cluster(shapes, tiny(), tmp_path / "run")
    assert [warned.name for warned in summary.warnings].count("NoPageWarning") == 1
    assert (tmp_path / "run" / "labels.csv").exists()
    assert not (tmp_path / "run" / "report.html").exists()
    again = resume(tmp_path / "run")
    assert (tmp_path / "run" / "report.html").exists()
    assert "NoPageWarning" not in [warned.name for warned in again.warnings]


def test_heads_may_learn_from_new_views_in_every_step(shapes: Path, tmp_path: Path) -> None:
    usual = tiny()
    fresh = usual.model_copy(update={"views": usual.views.model_copy(update={"fresh": True})})
    losses = []
    for name, settings in (("cached", usual), ("fresh", fresh), ("again", fresh)):
        cluster(shapes, settings, tmp_path / name, page=False)
        labels = read_labels(tmp_path / name)
        assert len(labels.cluster) == 96
        losses.append(labels.confidence)
    np.testing.assert_array_equal(losses[1], losses[2])
    assert not np.array_equal(losses[0], losses[1])
    np.save(tmp_path / "mine.npy", np.random.default_rng(0).normal(size=(96, 8)).astype(np.float32))
    given = fresh.model_copy(update={"encoder": f"features:{tmp_path / 'mine.npy'}", "size": None})
    with pytest.raises(UserError, match=r"views\.fresh = true needs images.*set it to false"):
        cluster(shapes, given, tmp_path / "given")


def test_quick_is_standard_with_less_of_it() -> None:
    usual = standard(clusters=5)
    fast = quick(usual)
    assert (fast.views.weak, fast.views.strong, fast.size) == (1, 1, 160)
    assert fast.heads.heads == usual.heads.heads // 3
    assert fast.model_copy(update={"views": usual.views, "heads": usual.heads, "size": None}) == usual
    assert quick(standard(clusters=5, size=96)).size == 96
    assert quick(standard(clusters=5, encoder="onnx:a.onnx")).size is None


def test_presets_are_found_by_name_and_mistakes_are_told() -> None:
    assert preset("standard", clusters=3) == standard(clusters=3)
    mine = standard(clusters=3, encoder="onnx:a.onnx", seed=2)
    assert preset("quick", clusters=3, encoder="onnx:a.onnx", seed=2) == quick(mine)
    assert preset("paper:cifar10") == paper("cifar10")
    assert preset("paper:cifar10", clusters=7, minutes=3.0).heads.clusters == 7
    for name, words in (
        ("fast", r"unknown preset 'fast'; choose quick, standard or paper:\{stl10,cifar10"),
        ("paper:mnist", "the paper has no data set 'mnist'; choose from stl10"),
    ):
        with pytest.raises(UserError, match=words):
            preset(name)
    with pytest.raises(UserError, match="trains its own encoder"):
        preset("paper:stl10", encoder="lite0")


def test_the_papers_settings_are_the_papers() -> None:
    """Implementation details of the paper, and the networks that it names for its tables."""
    for name in SETS:
        settings = paper(name)
        assert settings.encoder == "scratch"
        assert (settings.heads.heads, settings.heads.batch, settings.heads.components) == (10, 1000, None)
        assert (settings.heads.loss, settings.heads.start, settings.heads.learning_rate) == (
            "double_softmax", "random", 0.005,
        )  # fmt: skip
        heads = settings.heads
        assert (heads.similarity, heads.sizes, heads.overlap, heads.center_ratio) == ("cosine", "even", True, 1.0)
        assert (heads.label_view, heads.train_view, heads.select_by) == ("weak", "strong", "loss")
        assert settings.reliability == ReliabilitySettings(neighbors=100, threshold=0.95, minimum_per_cluster=0)
        assert (settings.views.augment.operations, settings.views.augment.padding) == (4, "reflect")
        assert (settings.views.fresh, settings.views.space) == (True, "images")  # new views in every step of stage 2
        if settings.joint is not None:  # nothing of our own in stage 3
            assert (settings.joint.checks, settings.joint.largest_share) == (False, None)
            assert settings.joint.augment == settings.views.augment
    stage_1 = {name: (first.network, first.stem) for name in SETS if (first := paper(name).features)}
    assert stage_1 == {
        "stl10": ("resnet34", "pool"), "cifar10": ("resnet34", "plain"), "cifar100-20": ("resnet34", "pool"),
        "tiny-imagenet": ("resnet34", "pool"), "imagenet-10": ("resnet34", "imagenet"),
        "imagenet-dog": ("resnet34", "imagenet"),
    }  # fmt: skip
    epochs = [first.epochs for name in SETS if (first := paper(name).features)]
    assert epochs == [1000, 1000, 1000, 1000, 5000, 3000]  # of stage 1, from the authors' configuration
    networks = {name: found.joint.network for name in SETS if (found := paper(name)).joint}
    assert networks == {
        "stl10": "wrn-37-2", "cifar10": "wrn-28-2", "cifar100-20": "wrn-28-8",
        "imagenet-10": None, "imagenet-dog": None,
    }  # fmt: skip
    assert [paper(name).heads.clusters for name in SETS] == [10, 10, 20, 200, 10, 15]
    assert [paper(name).size for name in SETS] == [96, 32, 32, 64, 224, 224]
    joint = paper("stl10").joint
    assert joint is not None
    assert (joint.steps, joint.labeled, joint.unlabeled, joint.threshold, joint.ema) == (2**20, 64, 448, 0.95, 0.999)
    assert (joint.weight_decay, joint.batch_norm_momentum) == (5e-4, 0.001)
    hundred = paper("cifar100-20").joint
    assert hundred is not None
    assert (hundred.weight_decay, hundred.batch_norm_momentum) == (1e-3, 0.001)
    short = paper("stl10", minutes=5.0).joint
    assert short is not None
    assert short.batch_norm_momentum is None
    assert paper("tiny-imagenet").heads.entropy > 0


def test_what_the_paper_leaves_to_others_is_as_they_have_it() -> None:
    """Stage 1: MoCo-v2; stage 3: FixMatch; queue, epochs of the heads and holes: the authors' configuration."""
    assert {name: first.queue for name in SETS if (first := paper(name).features)} == {
        "stl10": 65_536, "cifar10": 12_800, "cifar100-20": None,
        "tiny-imagenet": None, "imagenet-10": None, "imagenet-dog": None,
    }  # fmt: skip
    assert [paper(name).heads.epochs for name in SETS] == [100, 30, 100, 100, 100, 100]
    holes = {name: paper(name).views.augment.cutout * (paper(name).size or 0) for name in SETS}
    assert holes == pytest.approx({name: 16 if name.startswith("cifar") else 32 for name in SETS})
    for name in SETS:
        settings = paper(name)
        first, heads, joint = settings.features, settings.heads, settings.joint
        assert first is not None
        assert (first.method, first.temperature, first.momentum, first.projection) == ("moco", 0.2, 0.999, 128)
        assert (first.batch, first.learning_rate, first.warmup) == (128, 0.015, 0.0)
        assert (first.sgd_momentum, first.weight_decay, first.whitening) == (0.9, 1e-4, 0.0)
        assert (first.width, first.view_size, first.early_view_size) == (None, None, None)
        assert (heads.hidden, heads.select_every, heads.sub_batch, heads.repeats) == (None, 1, None, 1)
        assert (settings.views.weak, settings.views.strong, settings.views.sample) == (1, 1, None)
        assert settings.views.augment.shift == 4
        if joint is None:
            continue
        assert (joint.algorithm, joint.init, joint.trained) == ("fixmatch", "stages", 1.0)
        assert (joint.optimizer, joint.learning_rate, joint.sgd_momentum) == ("sgd", 0.03, 0.9)
        assert (joint.steps, joint.labeled, joint.unlabeled) == (2**20, 64, 7 * 64)
        assert (joint.threshold, joint.ema) == (0.95, 0.999)
        assert joint.weight_decay == (1e-3 if name == "cifar100-20" else 5e-4)
        assert joint.batch_norm_momentum == (0.001 if joint.network else None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stl10", "cifar10", "imagenet-10"])  # every stem, and both ways into stage 3
def test_presets_of_the_paper_can_be_trained(
    shapes: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    set_failed_checks: Callable[[list[str]], None],
) -> None:
    """The paper's networks and settings on few and small images, a step or two of each stage."""
    set_failed_checks([])
    monkeypatch.setattr("spice.pipeline.execute.estimated_seconds", lambda *_, **__: 1.0)
    # So short a training may put all images into one cluster, of which nothing could be learned.
    both = Labeled(torch.arange(26), torch.arange(26) % 2)
    monkeypatch.setattr(joint_step, "labels_to_learn", lambda *_, **__: both)
    few = tmp_path / "few"
    for kind in ("disc", "ring"):
        shutil.copytree(shapes / kind, few / kind, ignore=shutil.ignore_patterns("1*.png"))
    usual = preset(f"{PAPER}{name}", clusters=2, size=16)
    assert usual.features is not None
    small = {
        "features": usual.features.model_copy(update={"epochs": 1, "batch": 13, "queue": 13}),
        "views": usual.views.model_copy(update={"weak": 1, "strong": 1}),
        "heads": usual.heads.model_copy(update={"epochs": 1}),
        "reliability": usual.reliability.model_copy(update={"threshold": 0.0}),
        "joint": usual.joint and usual.joint.model_copy(update={"steps": 1, "labeled": 4, "unlabeled": 4}),
    }
    summary = cluster(few, usual.model_copy(update=small), tmp_path / "run")
    assert summary.features is not None
    assert summary.views is not None
    assert summary.features.method == "moco"
    assert summary.views.width == 512
    width = {"stl10": 256, "cifar10": 128, "imagenet-10": 512}[name]
    refined = np.load(open_result(tmp_path / "run") / REFINED_FEATURES)
    assert refined.shape == (26, width)
    # What predicts is the third stage's network, which need not be the first's.
    model = TrainedModel.load(tmp_path / "run" / "model")
    np.testing.assert_array_equal(
        model.predict_features(torch.from_numpy(refined)).cluster, read_labels(tmp_path / "run").cluster
    )


def test_a_run_that_cannot_be_refined_is_left_as_it_was(shapes: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    np.save(tmp_path / "mine.npy", random.normal(size=(96, 8)).astype(np.float32))
    cluster(
        shapes,
        tiny().model_copy(update={"encoder": f"features:{tmp_path / 'mine.npy'}", "size": None}),
        tmp_path / "run",
    )
    with pytest.raises(UserError, match="cannot be trained"):
        refine(tmp_path / "run")
    assert resume(tmp_path / "run").images == 96


def test_refining_later_keeps_the_preset(shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster(shapes, tiny(), tmp_path / "run")
    monkeypatch.setattr("spice.pipeline.commands.joint_on_cpu", lambda **_: JOINT)
    refine(tmp_path / "run")
    assert RunSettings.model_validate(open_result(tmp_path / "run").entry.requested) == tiny(JOINT)
    monkeypatch.setattr("spice.pipeline.commands.joint_on_cpu", lambda **_: JOINT.model_copy(update={"steps": 4}))
    refine(tmp_path / "run")
    assert RunSettings.model_validate(open_result(tmp_path / "run").entry.requested) == tiny(JOINT)
