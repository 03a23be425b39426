"""A command that is killed or refused at any moment leaves the earlier labels, model and page complete and together."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from small_settings import tiny_stages

from spice import load
from spice.errors import UserError
from spice.pipeline import cluster, refine, resume
from spice.pipeline.execute import Execution
from spice.pipeline.plan import Step
from spice.runs import RunFolder, RunSummary, open_result
from spice.runs.editor import Editor
from spice.runs.records import Record, StepResult
from spice.settings import JointSettings, RunSettings
from spice.stages.groups.given_labels import apply_labels

LINKED = ("labels.csv", "labels.parquet", "report.html", "model/head.safetensors", "model/model.json")
JOINT = JointSettings(steps=2, labeled=8, unlabeled=8, ema=None, learning_rate=0.01, checks=False)


def settings(clusters: int = 4) -> RunSettings:
    return tiny_stages(clusters=clusters, feature_epochs=1, heads=2, epochs=2, least_steps=4, threshold=0.2)


COMMANDS: dict[str, Callable[[Path, Path], RunSummary]] = {
    "refine": lambda _, run: refine(run),
    "another K": lambda images, run: cluster(images, settings(3), run),
}
STEPS = {
    "refine": ("joint", "labels", "model", "map", "pictures", "report"),
    "another K": ("kmeans", "heads", "labels", "model", "pictures", "report"),
}


@pytest.fixture(scope="module")
def finished(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("finished") / "run"
    cluster(shapes, settings(), run)
    return run


@pytest.fixture(autouse=True)
def short_joint_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spice.pipeline.commands.joint_on_cpu", lambda **_: JOINT)
    monkeypatch.setattr("spice.pipeline.execute.estimated_seconds", lambda *_, **__: 1.0)


def contents(run: Path) -> dict[str, bytes]:
    return {name: (run / name).read_bytes() for name in LINKED}


def killed(command: Callable[[], object], *, step: str, moment: str) -> None:
    """Run a command in a process of its own, which kills itself (-9) before a step, in its end, or while publishing."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"{step} was never reached"
        return
    torch.set_num_threads(1)  # the parent's threads do not exist here, and waiting for them would never end

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    run_step, link = Execution._do, RunFolder.link

    def run_or_die(self: Execution, current: Step) -> Record[StepResult]:
        if current.name == step and moment == "before":
            die()
        record = run_step(self, current)
        if current.name == step and moment == "after":
            (self.work.folders[step] / f"{step}.json").unlink()  # as if killed before the record was written
            die()
        return record

    def link_or_die(self: RunFolder) -> None:
        if moment == "publishing":
            die()
        link(self)

    Execution._do, RunFolder.link = run_or_die, link_or_die  # type: ignore[assignment,method-assign]
    try:
        command()
    finally:
        os._exit(1)


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is of POSIX systems")
@pytest.mark.parametrize(
    ("command", "step", "moment"),
    [(command, step, moment) for command, steps in STEPS.items() for step in steps for moment in ("before", "after")]
    + [(command, "none", "publishing") for command in STEPS],
)
def test_a_kill_leaves_the_earlier_result_whole(
    finished: Path, shapes: Path, tmp_path: Path, command: str, step: str, moment: str
) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "run", symlinks=True))
    before, first = contents(run), open_result(run).name
    killed(lambda: COMMANDS[command](shapes, run), step=step, moment=moment)
    assert contents(run) == before
    if moment != "publishing":  # where the new result is complete, and only the links at the top are old
        assert open_result(run).name == first
    result = open_result(run)
    assert (result.folder / "labels.csv").exists()
    assert (result.folder / "report.html").exists()
    assert len(load(result.folder / "model").predict(shapes)) == 96
    summary = resume(run)
    assert contents(run) != before
    assert open_result(run).name == summary.result != first
    assert set(open_result(run).manifest.results) == {first, summary.result}


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (
            lambda images, run: apply_labels(Editor(run), {"disc/900.png": "disc"}),
            "there is a label for disc/900.png, but no such image",
        ),
        (lambda images, run: cluster(images, settings(97), run), "at most 48 groups, got 97"),
        (lambda images, run: cluster(images / "disc", settings(), run), "the images have changed"),
        (lambda images, run: refine(run, settings_file=Path(__file__)), "is not valid TOML"),
    ],
)
def test_a_refused_command_changes_nothing(
    finished: Path, shapes: Path, tmp_path: Path, refused: Callable[[Path, Path], object], words: str
) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "run", symlinks=True))
    before = contents(run)
    with pytest.raises(UserError, match=words):
        refused(shapes, run)
    assert contents(run) == before
    assert resume(run).result == open_result(finished).name
    assert contents(run) == before


def test_a_failing_step_leaves_the_earlier_result_and_is_tried_again(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "run", symlinks=True))
    before = contents(run)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the GPU has gone")

    with monkeypatch.context() as patch:
        patch.setattr("spice.pipeline.steps.joint.refine", fail)
        with pytest.raises(RuntimeError, match="the GPU has gone"):
            refine(run)
    assert contents(run) == before
    assert resume(run).joint is not None
