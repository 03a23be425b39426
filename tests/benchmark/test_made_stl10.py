"""Images without labels, as STL-10 has them: stages 1 and 3 learn from them; labels and scores are of the rest."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spice.benchmark.choice import Choice, choices
from spice.benchmark.collected import collect
from spice.benchmark.tables.catalog import TABLES
from spice.benchmark.tables.run import measure
from spice.benchmark.workbench import Workbench
from spice.engine.run import Run
from spice.pipeline import cluster
from spice.runs import open_result
from spice.settings import RunSettings

SMOKE = choices(TABLES["whole"], "smoke")[0]
COUNTS = {"train": 40, "test": 20, "unlabeled": 30}


def made(count: int, first: int) -> np.ndarray:
    """Images of ten kinds, each of its own brightness, and noise: (count, 3, 96, 96)."""
    random = np.random.default_rng(first)
    kind = np.arange(count) % 10
    return (20 * kind[:, None, None, None] + random.integers(0, 40, (count, 3, 96, 96))).astype(np.uint8)


@pytest.fixture
def stl10(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Choice:
    folder = tmp_path / "data" / "stl10"
    folder.mkdir(parents=True)
    for number, (name, count) in enumerate(COUNTS.items()):
        (folder / f"{name}_X.bin").write_bytes(made(count, number).tobytes())
        if name != "unlabeled":
            (folder / f"{name}_y.bin").write_bytes((np.arange(count) % 10 + 1).astype(np.uint8).tobytes())
    monkeypatch.setenv("SPICE_DATA", str(tmp_path / "data"))
    joint = SMOKE.joint.model_copy(update={"checks": True})
    return SMOKE.model_copy(update={"dataset": "stl10", "train": None, "test": None, "joint": joint})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "method"),
    [("whole", "SPICE"), ("split", "SPICE"), ("semi-supervised", "FixMatch"), ("feature-quality", "After")],
)
def test_stage_3_learns_from_all_images_and_is_judged_by_those_with_labels(
    table: str, method: str, stl10: Choice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = dict[str, int]()  # how many images each training draws from

    def noted(stage: str, module: str, name: str, place: int) -> None:
        train = getattr(importlib.import_module(module), name)

        def learn(*arguments: Any) -> Any:
            shown[stage] = len(arguments[place])
            return train(*arguments)

        monkeypatch.setattr(f"{module}.{name}", learn)

    noted("features", "spice.pipeline.steps.features", "train_features", 0)
    noted("joint", "spice.stages.joint.refine", "train_jointly", 1)
    noted("semi-supervised", "spice.benchmark.semi", "train_jointly", 1)
    which = TABLES[table].which
    images = collect(stl10, which, tmp_path / "images")
    bench = Workbench(images, stl10, Run(folder=tmp_path / "run"))
    learned = 60 if which == "whole" else 40
    assert len(bench.all_images) == learned + 30
    cell = measure(bench, images, method, TABLES[table])
    last = "semi-supervised" if table == "semi-supervised" else "joint"
    assert shown == dict.fromkeys(("features", last), learned + 30)
    assert (cell.learned, cell.scored) == (learned, 60 if which == "whole" else 20)
    assert all(0 <= value <= 1 for value in cell.scores.values())


@pytest.mark.slow
def test_further_images_are_learned_from_and_get_no_label(tmp_path: Path) -> None:
    np.save(tmp_path / "extra.npy", made(30, 2).transpose(0, 2, 3, 1))
    settings = RunSettings(
        encoder="scratch",
        size=16,
        features=SMOKE.features,
        views=SMOKE.views,
        heads=SMOKE.heads,
        reliability=SMOKE.reliability,
        joint=SMOKE.joint.model_copy(update={"checks": True}),
        extra=str(tmp_path / "extra.npy"),
    )
    images = made(60, 0).transpose(0, 2, 3, 1)
    cluster(images, settings, tmp_path / "run", page=False)
    with_extra = open_result(tmp_path / "run")
    assert with_extra.joint is not None
    assert with_extra.joint.labeled > 0
    assert len(with_extra.joint.loss) > 0
    assert len(with_extra.labels.path) == 60
    alone = settings.model_copy(update={"extra": None})
    cluster(images, alone, tmp_path / "run", page=False)
    features = [result.entry.folders["features"] for result in (with_extra, open_result(tmp_path / "run"))]
    assert features[0] != features[1]  # stage 1 has learned from other images
