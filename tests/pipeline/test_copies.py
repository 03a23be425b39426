"""Exact copies are encoded once and get the same answer, in a run and in a prediction."""

import shutil
from pathlib import Path

import numpy as np
import torch
from small_settings import with_few_heads

from spice.data import ingest
from spice.data.images import InMemory
from spice.engine.run import Run
from spice.estimator import load
from spice.models.encoders import TorchEncoder, load_encoder
from spice.models.networks import network
from spice.pipeline import cluster
from spice.presets import standard
from spice.runs import open_result
from spice.runs.artifacts import FEATURES, MODEL, VIEWS
from spice.settings import IMAGENET, ViewSettings
from spice.stages.encode import encode_plain
from spice.stages.views import encode_views


def test_copies_are_encoded_once_and_get_the_same_answer(shapes: Path, tmp_path: Path, encoded: list[int]) -> None:
    distinct = sorted(shapes.rglob("*.png"))[::4]
    listed = [str(path) for path in distinct for _ in range(7)]
    (tmp_path / "list.txt").write_text("\n".join(listed))
    settings = with_few_heads(standard(clusters=3, size=32), heads=2, epochs=2)
    settings = settings.model_copy(update={"views": ViewSettings(weak=2, strong=3)})
    cluster(tmp_path / "list.txt", settings, tmp_path / "run", page=False)
    assert sum(encoded) == len(distinct) * (1 + 2 + 3)
    result = open_result(tmp_path / "run")
    features, strong = np.load(result / FEATURES), np.load(result / VIEWS / "strong.npy")
    assert features.shape[0] == strong.shape[1] == len(listed)
    for start in range(0, len(listed), 7):
        assert (features[start : start + 7] == features[start]).all()
        assert (strong[:, start : start + 7] == strong[:, start, None]).all()
    answers = {path: set() for path in map(str, distinct)}  # type: ignore[var-annotated]
    for row in zip(result.labels.path, result.labels.cluster, result.labels.reliability, strict=True):
        answers[row[0]].add(row[1:])
    assert {len(answer) for answer in answers.values()} == {1}

    encoded.clear()
    again = tmp_path / "again"
    again.mkdir()
    for number in range(5):
        shutil.copy(distinct[0], again / f"{number}.png")
    found = load(result / MODEL).assess(again)
    assert encoded == [1]
    assert len(found.paths) == 5
    assert len(set(zip(found.predictions.cluster, found.predictions.chance, strict=True))) == 1


def test_a_list_that_names_25_files_100_000_times_costs_25_encodings(
    shapes: Path, tmp_path: Path, encoded: list[int]
) -> None:
    distinct = sorted(shapes.rglob("*.png"))[:25]
    (tmp_path / "list.txt").write_text("\n".join(str(distinct[row % 25]) for row in range(100_000)))
    images = ingest(tmp_path / "list.txt", size=16, folder=tmp_path / "store")
    pixels = sum(path.stat().st_size for path in (tmp_path / "store").rglob("*.u8"))
    assert pixels == 25 * 3 * 16 * 16
    small = TorchEncoder("small", network("resnet10", stem="plain", width=4).eval(), IMAGENET, size=16)
    features = encode_plain(small, images, distinct=images.collection.distinct)
    assert len(features) == 100_000
    assert sum(encoded) == len(np.unique(features.numpy(), axis=0)) == 25


def test_without_copies_nothing_changes(tmp_path: Path) -> None:
    pixels = InMemory(torch.randint(0, 256, (70, 3, 32, 32), generator=torch.Generator().manual_seed(0)).byte())
    encoder, settings = load_encoder("lite0", size=32), ViewSettings(weak=1, strong=1)
    features = encode_plain(encoder, pixels)
    assert features.equal(encode_plain(encoder, pixels, distinct=np.arange(70)))
    usual = encode_views(pixels, features.numpy(), encoder, settings, Run(folder=tmp_path / "usual"))
    same = encode_views(
        pixels, features.numpy(), encoder, settings, Run(folder=tmp_path / "same"), distinct=np.arange(70)
    )
    assert (usual.strong == same.strong).all()
