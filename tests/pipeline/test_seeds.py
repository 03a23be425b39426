"""A new seed repeats only the steps that depend on it, and gives what a run with that seed alone gives."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from damage import flip_a_bit
from small_settings import with_few_heads
from tests.stages.groups.test_curve import blobs

from spice import load
from spice.errors import UserError
from spice.pipeline import cluster, resume
from spice.presets import preset, standard
from spice.runs import open_result
from spice.runs.artifacts import FEATURES, MODEL
from spice.runs.editor import Editor
from spice.runs.edits import Name
from spice.settings import RunSettings


def settings(seed: int, **views: object) -> RunSettings:
    usual = standard(clusters=4, size=32, seed=seed)
    few = with_few_heads(usual, heads=2, epochs=2)
    return few.model_copy(update={"views": usual.views.model_copy(update=views)})


@pytest.fixture(scope="module")
def finished(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs with seed 0 and with seed 1."""
    folder = tmp_path_factory.mktemp("seeds")
    for seed in (0, 1):
        cluster(shapes, settings(seed), folder / f"seed-{seed}")
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of the run with seed 0, to be changed."""
    return Path(shutil.copytree(finished / "seed-0", tmp_path / "run", symlinks=True))


def steps(run: Path) -> list[str]:
    """The step of every folder in `steps`."""
    return sorted(folder.name.partition("-")[0] for folder in (run / "steps").iterdir())


def test_another_seed_gives_the_labels_of_a_run_of_its_own_and_encodes_no_image(
    finished: Path, run: Path, shapes: Path, encoded: list[int]
) -> None:
    before = steps(run)
    cluster(shapes, settings(1), run)
    assert not encoded
    assert (run / "labels.csv").read_bytes() == (finished / "seed-1" / "labels.csv").read_bytes()
    assert (run / "labels.csv").read_bytes() != (finished / "seed-0" / "labels.csv").read_bytes()
    assert steps(run) == sorted([*before, "views", "heads", "kmeans"])


def test_random_views_of_images_are_encoded_for_every_seed_and_the_images_once(
    shapes: Path, tmp_path: Path, encoded: list[int]
) -> None:
    images = {seed: settings(seed, space="images", weak=1, strong=1) for seed in (0, 1)}
    for seed, passes in ((0, 3), (1, 2)):
        cluster(shapes, images[seed], tmp_path / "run", page=False)
        assert sum(encoded) == 96 * passes
        encoded.clear()
    cluster(shapes, images[1], tmp_path / "fresh", page=False)
    assert (tmp_path / "run" / "labels.csv").read_bytes() == (tmp_path / "fresh" / "labels.csv").read_bytes()


def test_the_search_for_the_number_of_groups_depends_on_the_seed_and_the_neighbors_do_not(tmp_path: Path) -> None:
    for seed in (0, 1):
        searching = with_few_heads(preset("standard", seed=seed), heads=2, epochs=2, components=8)
        cluster(blobs([40] * 5), searching, tmp_path, page=False)
    assert steps(tmp_path) == [
        "encode", "heads", "heads", "howmany", "howmany", "kmeans", "kmeans", "neighbors", "scan", "tree", "tree",
        "views", "views",
    ]  # fmt: skip


def test_a_feature_model_trained_with_another_seed_encodes_again(shapes: Path, tmp_path: Path) -> None:
    for seed in (0, 1):
        scratch = preset("standard", clusters=4, encoder="scratch", size=16, seed=seed)
        small = {"network": "resnet10", "stem": "plain", "width": 8, "epochs": 1, "batch": 32}
        changed = with_few_heads(scratch, heads=2, epochs=2).model_copy(update={"features_changes": small})
        cluster(shapes, changed, tmp_path / "run", last="features", page=False)
    assert steps(tmp_path / "run") == ["encode", "encode", "features", "features", "scan", "views", "views"]


# Runs of version 0.2, in which the step `views` also made the features.


@pytest.fixture
def older_run(run: Path) -> Path:
    """The run as version 0.2 would have made it."""
    manifest = json.loads((run / "manifest.json").read_text())
    folders = manifest["results"][manifest["current"]]["folders"]
    encode, views = run / folders.pop("encode"), run / folders["views"]
    record = json.loads((views / "views.json").read_text())
    record["files"] |= json.loads((encode / "encode.json").read_text())["files"]
    (views / "views.json").write_text(json.dumps(record))
    (encode / FEATURES.name).rename(views / FEATURES.name)
    shutil.rmtree(encode)
    (run / "manifest.json").write_text(json.dumps(manifest))
    return run


def test_an_older_run_is_shown_edited_and_predicts(older_run: Path, finished: Path, shapes: Path) -> None:
    older, newer = open_result(older_run), open_result(finished / "seed-0")
    np.testing.assert_array_equal(older.answer_features, newer.answer_features)
    assert older.views == newer.views
    Editor(older_run).do(Name(group=0, name="first"))
    assert open_result(older_run).groups.names[0] == "first"
    assert (load(older / MODEL).predict(shapes) == load(newer / MODEL).predict(shapes)).all()


def test_damaged_features_of_an_older_run_are_refused(older_run: Path) -> None:
    flip_a_bit(open_result(older_run) / FEATURES)
    with pytest.raises(UserError, match=r"features.npy is damaged; recreate it with: spice resume"):
        _ = open_result(older_run).answer_features


def test_an_older_run_that_is_resumed_keeps_its_result_and_its_edits(older_run: Path, finished: Path) -> None:
    first = open_result(older_run).name
    Editor(older_run).do(Name(group=0, name="first"))
    resume(older_run)
    after = open_result(older_run)
    assert set(after.manifest.results) == {first, after.name}
    assert (older_run / "results" / first / "labels.csv").exists()
    assert after.groups.names[0] == "first"
    np.testing.assert_array_equal(after.labels.cluster, open_result(finished / "seed-0").labels.cluster)
