"""Features of other machines, in shards; and what `--engine ray` refuses."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from spice.data.collection import collection_of_vectors
from spice.data.recognize import open_source
from spice.errors import UserError
from spice.models.encoders import load_encoder
from spice.pipeline import cluster
from spice.pipeline.on_ray import RayEngine
from spice.pipeline.shards import FeatureShards
from spice.presets import standard


def test_features_are_found_by_content_in_whatever_shard_they_are(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    collection = collection_of_vectors(vectors)
    hashes, order = collection.table["hash"].to_pylist(), np.random.default_rng(1).permutation(50)
    shards = FeatureShards(tmp_path)
    for start in range(0, 50, 20):
        rows = order[start : start + 20]
        shards.add([hashes[row] for row in rows], vectors[rows])
    shards.add(hashes[:3], vectors[:3])  # a batch that was done twice
    positions = torch.tensor([49, 0, 7, 7, 23])
    np.testing.assert_array_equal(shards.of(collection).take(positions).numpy(), vectors[positions.numpy()])
    np.testing.assert_array_equal(FeatureShards(tmp_path).of(collection).take(torch.arange(50)).numpy(), vectors)


def test_a_shard_that_a_kill_cut_short_does_not_count(tmp_path: Path) -> None:
    vectors = np.eye(4, dtype=np.float32)
    collection = collection_of_vectors(vectors)
    hashes, shards = collection.table["hash"].to_pylist(), FeatureShards(tmp_path)
    with pytest.raises(UserError, match="no features for 4 images"):
        shards.of(collection)
    shards.add(hashes[:3], vectors[:3])
    np.save(tmp_path / "000001.npy", vectors[3:])  # killed before its hashes were written
    with pytest.raises(UserError, match="no features for 1 images"):
        shards.of(collection)
    shards.add(hashes[3:], vectors[3:])
    np.testing.assert_array_equal(shards.of(collection).take(torch.arange(4)).numpy(), vectors)


def test_without_ray_the_engine_says_how_to_install_it(
    shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    engine = RayEngine(None, load_encoder("lite0", size=32), FeatureShards(tmp_path))
    source = open_source(str(shapes))
    with pytest.raises(UserError, match=r"pip install ray"):
        list(engine.examine_all(source, source.listing()[0]))
    assert not list(engine.examine_all(source, []))  # nothing to do needs no cluster


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"encoder": "scratch"}, "needs a pretrained encoder"),
        ({"encoder": "features:some.npz"}, "features from a file are already embedded"),
        ({"extra": "more"}, "--extra does not work with --engine ray"),
    ],
)
def test_what_a_cluster_cannot_do_is_refused(changes: dict[str, str], words: str, shapes: Path, tmp_path: Path) -> None:
    settings = standard(clusters=4).model_copy(update=changes)
    with pytest.raises(UserError, match=words):
        cluster(str(shapes), settings, tmp_path / "run", engine="ray")
    with pytest.raises(UserError, match="feature vectors are already embedded"):
        cluster(np.ones((50, 4), dtype=np.float32), standard(clusters=4), tmp_path / "run", engine="ray")
    assert not (tmp_path / "run").exists()
