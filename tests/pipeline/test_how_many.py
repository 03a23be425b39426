"""A run without -k: the number of groups is found before the heads, kept, and used."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from small_settings import with_few_heads
from tests.stages.groups.test_curve import blobs

from spice.errors import NothingTrustworthyError, UserError
from spice.pipeline import cluster, regroup, resume
from spice.presets import preset, standard, with_clusters
from spice.runs import RunSummary, open_result
from spice.runs.artifacts import CANDIDATES, TREE
from spice.settings import RunSettings

FEATURES = blobs([40] * 5)


def quickly(settings: RunSettings, **changes: object) -> RunSettings:
    quick = with_few_heads(settings, heads=4, epochs=3, least_steps=12, components=8, **changes)
    return quick.model_copy(update={"reliability": settings.reliability.model_copy(update={"threshold": 0.2})})


def found(run: Path, features: NDArray[np.float32] = FEATURES, **options: object) -> RunSummary:
    return cluster(features, quickly(preset("standard", **options)), run, page=False)  # type: ignore[arg-type]


def test_the_number_that_is_found_is_used_and_kept_beside_what_was_asked_for(tmp_path: Path) -> None:
    summary = found(tmp_path)
    assert summary.howmany is not None
    assert summary.howmany.clusters == 5
    assert len(summary.clusters) == 5
    result = open_result(tmp_path)
    assert result.entry.requested["how_many"] == {"least": 2, "most": None}
    assert result.entry.settings["heads"]["clusters"] == 5  # type: ignore[index, call-overload]
    assert np.load(result / CANDIDATES).shape == (len(summary.howmany.candidates), 200)
    assert (result / TREE).exists()


def test_the_same_number_given_by_hand_is_the_same_result_and_nothing_is_trained_again(tmp_path: Path) -> None:
    found(tmp_path)
    before = open_result(tmp_path)
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "steps").rglob("*.json")}
    cluster(FEATURES, quickly(preset("standard", clusters=5)), tmp_path, page=False)
    after = open_result(tmp_path)
    assert after.name == before.name
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "steps").rglob("*.json")} == made
    cluster(FEATURES, quickly(preset("standard", clusters=4)), tmp_path, page=False)
    found(tmp_path)
    assert open_result(tmp_path).name == before.name


def test_a_number_given_first_can_be_found_later(tmp_path: Path) -> None:
    cluster(FEATURES, quickly(preset("standard", clusters=5)), tmp_path, page=False)
    first = open_result(tmp_path)
    assert first.howmany is None
    summary = found(tmp_path)
    assert open_result(tmp_path).name == first.name
    assert summary.howmany is not None


def test_a_range_is_searched(tmp_path: Path) -> None:
    summary = found(tmp_path, clusters=(7, 9))
    assert summary.howmany is not None
    assert summary.howmany.counts == [7, 8, 9]


def test_features_without_groups_end_with_their_own_error_and_can_be_grouped_by_number(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(size=(120, 20)).astype("f4")
    for _ in range(2):  # the second time the answer is read
        with pytest.raises(NothingTrustworthyError, match=r"no clear groups: .* set the number with -k") as error:
            found(tmp_path, noise)
        assert error.value.exit_code == 4
    cluster(noise, quickly(preset("standard", clusters=3)), tmp_path, page=False)
    assert len(open_result(tmp_path).labels.cluster) == 120


def test_heads_start_from_a_cut_of_the_tree(tmp_path: Path) -> None:
    settings = quickly(standard(clusters=3), start="cut", sizes="nearest")
    cluster(FEATURES, settings, tmp_path, page=False)
    result = open_result(tmp_path)
    assert (result / TREE).exists()
    assert len(np.unique(result.labels.cluster)) == 3
    assert [len(set(part)) for part in np.split(result.labels.cluster, 5)] == [1] * 5  # whole groups are joined


def test_a_result_is_made_from_a_cut_of_the_tree_and_the_next_one_starts_as_usual_again(tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", FEATURES)
    cluster(tmp_path / "vectors.npy", quickly(preset("standard", clusters=5)), tmp_path / "run", page=False)
    usual = open_result(tmp_path / "run").entry.requested["heads"]
    regroup(tmp_path / "run", 3, cut=True)
    cut = open_result(tmp_path / "run")
    assert cut.answer.clusters == 3
    assert (cut / TREE).exists()
    assert [len(set(part)) for part in np.split(cut.labels.cluster, 5)] == [1] * 5  # whole groups are joined
    regroup(tmp_path / "run", 5)
    assert open_result(tmp_path / "run").entry.requested["heads"] == usual


def test_more_groups_than_the_tree_has_are_refused(tmp_path: Path) -> None:
    settings = quickly(standard(clusters=30), start="cut", sizes="nearest")
    with pytest.raises(UserError, match="the tree of these images can be cut into at most 20 groups, got 30"):
        cluster(FEATURES, settings, tmp_path, page=False)


def test_a_stopped_run_resumes_with_the_number_that_it_found(tmp_path: Path) -> None:
    path = tmp_path / "vectors.npy"
    np.save(path, FEATURES)
    settings = quickly(preset("standard"))
    stopped = cluster(path, settings, tmp_path / "run", last="features", page=False)
    assert stopped.howmany is None
    assert resume(tmp_path / "run").howmany is not None


def test_too_few_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="20 images are too few to find the number of groups"):
        found(tmp_path, FEATURES[:20])


def test_what_was_left_as_usual_follows_the_number_and_what_was_changed_stays() -> None:
    heads = standard(clusters=2).heads.model_copy(update={"epochs": 7})
    assert with_clusters(heads, 300) == standard(clusters=300).heads.model_copy(update={"epochs": 7})
