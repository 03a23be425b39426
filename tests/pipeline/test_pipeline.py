"""Promises of a run: computed once, resumed, never lost, never influenced by names."""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from sklearn.metrics import adjusted_rand_score
from small_settings import with_few_heads

from spice.errors import NothingReadableError, UserError
from spice.models.efficientnet import published_weights
from spice.pipeline import cluster, regroup, resume
from spice.pipeline.execute import Execution
from spice.pipeline.steps.scan import read_inputs
from spice.presets import standard
from spice.progress import CanceledError
from spice.runs import RunSummary, locked, open_result, read_labels, read_manifest
from spice.runs.artifacts import (
    FEATURES,
    HEAD,
    IMAGES,
    KMEANS,
    NEIGHBORS,
    PICTURES,
    PROBABILITIES,
    PROBLEMS,
    VIEWS,
    Artifact,
)
from spice.runs.folder import UNFINISHED
from spice.runs.suggested_names import read_words
from spice.settings import RunSettings


def settings(clusters: int = 4, *, seed: int = 0) -> RunSettings:
    """Few heads and small images: what is tested here is the run, not the clustering."""
    return with_few_heads(standard(clusters=clusters, size=64, seed=seed), heads=8, epochs=10)


@pytest.fixture(scope="module")
def finished(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunSummary]:
    out = tmp_path_factory.mktemp("finished") / "run"
    return out, cluster(shapes, settings(), out)


@pytest.fixture
def run(finished: tuple[Path, RunSummary], tmp_path: Path) -> Path:
    """A copy of the finished run, to be spoiled."""
    return Path(shutil.copytree(finished[0], tmp_path / "run", symlinks=True))


@pytest.fixture
def drawings(shapes: Path, tmp_path: Path) -> Path:
    """A copy of the images, to be spoiled."""
    return Path(shutil.copytree(shapes, tmp_path / "drawings"))


def written(run: Path) -> dict[str, int]:
    """When each file of the run was written; the store and the lock note every look."""
    files = (path for path in run.rglob("*") if path.is_file() and "store" not in path.parts)
    return {
        str(path.relative_to(run)): path.stat().st_mtime_ns for path in files if path.name not in (".lock", ".holder")
    }


def place(run: Path, artifact: Artifact) -> Path:
    """Where an artifact of the current result is."""
    return open_result(run) / artifact


def load(run: Path, artifact: Artifact) -> np.ndarray:
    return np.asarray(np.load(place(run, artifact)))


def by_content(run: Path) -> dict[str, int]:
    """Cluster of every image by what it shows."""
    hashes = pq.read_table(place(run, IMAGES)).column("hash").to_pylist()
    return dict(zip(hashes, read_labels(run).cluster.tolist(), strict=True))


def test_drawings_are_grouped_by_what_they_show(finished: tuple[Path, RunSummary]) -> None:
    labels = read_labels(finished[0])
    truth = [Path(path).parent.name for path in labels.path]
    assert adjusted_rand_score(truth, labels.cluster) > 0.9
    assert labels.reliable.mean() > 0.8


def test_the_time_of_reading_is_that_of_the_scan(shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*args: object, **options: object) -> object:
        time.sleep(1.0)
        return read_inputs(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("spice.pipeline.commands.read_inputs", slowly)
    summary = cluster(str(shapes), settings(), tmp_path / "run", last="features", page=False)
    assert summary.seconds["scan"] > 1.0


def test_the_summary_says_what_was_done(finished: tuple[Path, RunSummary], shapes: Path) -> None:
    out, summary = finished
    assert summary.run == str(out)
    assert summary.source == str(shapes)
    assert summary.images == 96
    assert sum(found.images for found in summary.clusters) == 96
    assert (summary.scan.images, summary.scan.problems, summary.scan.copies) == (96, 0, 0)
    assert summary.views is not None
    assert summary.views.width == 1280
    assert set(summary.seconds) == {
        "scan", "encode", "views", "neighbors", "kmeans", "heads", "labels", "model", "map", "words", "pictures",
        "report",
    }  # fmt: skip
    assert summary.labels is not None
    assert 0 < summary.labels.kmeans_agreement <= 1


def test_every_promised_file_is_there_and_no_work_is_left(finished: tuple[Path, RunSummary]) -> None:
    run = finished[0]
    assert {path.name for path in run.iterdir()} - {".lock", ".holder"} == {
        "manifest.json", "store", "steps", "results", "current", "labels.csv", "labels.parquet", "model", "report.html",
    }  # fmt: skip
    assert {path.name.partition("-")[0] for path in (run / "steps").iterdir()} == {
        "scan", "encode", "views", "neighbors", "kmeans", "heads", "map", "words",
    }  # fmt: skip
    assert not list(run.rglob(UNFINISHED))


def test_settings_are_stored_as_the_program_decided_them(finished: tuple[Path, RunSummary]) -> None:
    entry = open_result(finished[0]).entry
    assert entry.requested["size"] == 64
    assert entry.requested["reliability"]["neighbors"] is None  # type: ignore[index,call-overload]
    decided = RunSettings.model_validate(entry.settings)
    assert (decided.heads.batch, decided.heads.epochs, decided.reliability.neighbors) == (96, 45, 12)


def test_words_are_what_the_whole_published_network_would_say(finished: tuple[Path, RunSummary]) -> None:
    features = torch.from_numpy(np.load(place(finished[0], FEATURES)))
    weights = published_weights("lite0")
    probs = (features @ weights["_fc.weight"].T + weights["_fc.bias"]).softmax(dim=1)
    found = read_words(open_result(finished[0]))
    assert found is not None
    assert (found.best[:, 0] == probs.argmax(dim=1).numpy()).all()
    assert np.abs(found.share[:, 0] - probs.amax(dim=1).numpy()).max() < 1e-3


def test_another_number_of_groups_is_made_with_the_same_settings_and_can_be_canceled(
    finished: tuple[Path, RunSummary], tmp_path: Path
) -> None:
    run = Path(shutil.copytree(finished[0], tmp_path / "run", symlinks=True))
    before = read_manifest(run)

    def cancel(task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:
        if "head" in task:
            raise CanceledError(task, done, total, figures)

    with pytest.raises(CanceledError):
        regroup(run, 3, progress=cancel)
    assert read_manifest(run) == before  # nothing is left to be resumed
    summary = regroup(run, 3)
    assert summary.result.startswith("k3-")
    manifest = read_manifest(run)
    assert manifest.current == summary.result
    assert next(iter(manifest.results)) in before.results
    old, new = (RunSettings.model_validate(manifest.results[name].settings) for name in manifest.results)
    assert (new.heads.clusters, new.size, new.encoder, new.seed) == (3, old.size, old.encoder, old.seed)


def test_progress_shows_the_steps_after_training_and_nothing_if_all_are_done(run: Path) -> None:
    shown: list[tuple[str, int, int]] = []

    def note(task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:
        shown.append((task, done, total))

    regroup(run, 3, progress=note)
    last = [call for call in shown if call[0] != "thumbnails"]
    # The map and the words are those of the first result.
    assert last[-5:] == [("labels and report", done, 4) for done in range(5)]
    shown.clear()
    regroup(run, 3, progress=note)
    assert not [call for call in shown if call[0] == "labels and report"]


def test_the_page_shows_where_the_encoder_sees_each_cluster(finished: tuple[Path, RunSummary]) -> None:
    pictures = place(finished[0], PICTURES)
    assert len(list(pictures.glob("attention-*.jpg"))) == 4 * 3
    assert (finished[0] / "report.html").read_text().count('class="attention"') == 4 * 3


def test_the_same_command_again_changes_nothing(run: Path, shapes: Path, finished: tuple[Path, RunSummary]) -> None:
    before = written(run)
    again = cluster(shapes, settings(), run)
    assert written(run) == before
    assert again.clusters == finished[1].clusters
    assert resume(run).clusters == finished[1].clusters
    assert written(run) == before


def test_what_a_kill_left_of_a_finished_steps_work_is_removed(run: Path, shapes: Path) -> None:
    before = written(run)
    left = place(run, HEAD).parent / UNFINISHED / "even"
    left.mkdir(parents=True)
    (left / "step-000000000044.safetensors").write_bytes(b"its folder was being removed")
    cluster(shapes, settings(), run)
    assert written(run) == before
    assert not left.exists()


def test_names_and_folders_tell_the_program_nothing(
    shapes: Path, tmp_path: Path, finished: tuple[Path, RunSummary]
) -> None:
    """The label firewall: class folders, and the same images flat under random names, give the same labels."""
    flat = tmp_path / "flat"
    flat.mkdir()
    names = np.random.default_rng(7).permutation(10_000)
    for number, path in enumerate(sorted(shapes.rglob("*.png"))):
        shutil.copy(path, flat / f"{names[number]}.png")
    cluster(flat, settings(), tmp_path / "run")
    assert by_content(tmp_path / "run") == by_content(finished[0])
    for made in (FEATURES, PROBABILITIES, NEIGHBORS, KMEANS):
        np.testing.assert_array_equal(load(tmp_path / "run", made), load(finished[0], made), err_msg=made.name)


def test_another_seed_is_kept_beside_the_first(run: Path, shapes: Path, finished: tuple[Path, RunSummary]) -> None:
    first = finished[1].result
    second = cluster(shapes, settings(seed=1), run).result
    assert set(read_manifest(run).results) == {first, second}
    assert read_manifest(run).current == second


def test_another_number_of_clusters_shares_views_and_neighbors_and_keeps_both(run: Path, shapes: Path) -> None:
    before, labels = written(run), (run / "labels.csv").read_bytes()
    six = open_result(run)
    summary = cluster(shapes, settings(clusters=3), run)
    after = written(run)
    assert all(after[name] == when for name, when in before.items() if name.startswith(("steps", "results")))
    assert len(summary.clusters) == 3
    assert load(run, PROBABILITIES).shape == (96, 3)
    assert (six.folder / "labels.csv").read_bytes() == labels
    assert (run / "labels.csv").read_bytes() != labels
    new = {name.split("/")[1].partition("-")[0] for name in set(after) - set(before) if name.startswith("steps")}
    assert new == {"kmeans", "heads"}
    again = cluster(shapes, settings(), run)
    assert again.result == six.name
    assert (run / "labels.csv").read_bytes() == labels


def test_changed_images_are_seen_and_nothing_is_lost(run: Path, drawings: Path, shapes: Path) -> None:
    labels = (run / "labels.csv").read_bytes()
    table = place(run, IMAGES).read_bytes()
    (drawings / "disc" / "0.png").unlink()
    shutil.copy(drawings / "disc" / "1.png", drawings / "disc" / "copy.png")
    with pytest.raises(UserError, match=r"the images have changed since this run began \(there are 96 now\).*--redo"):
        cluster(drawings, settings(), run)
    assert (run / "labels.csv").read_bytes() == labels
    assert place(run, IMAGES).read_bytes() == table
    assert cluster(shapes, settings(), run).images == 96  # the old images are still known
    summary = cluster(drawings, settings(), run, redo=True)
    assert summary.scan.copies == 1
    assert "disc/copy.png" in read_labels(run).path


def test_moved_images_get_their_new_names_and_are_not_encoded_again(run: Path, drawings: Path) -> None:
    before, labels = written(run), by_content(run)
    (drawings / "disc").rename(drawings / "renamed")
    cluster(drawings, settings(), run)
    assert "renamed/0.png" in read_labels(run).path
    assert by_content(run) == labels
    after = written(run)
    shared = ("steps/encode", "steps/views", "steps/heads", "steps/neighbors", "steps/kmeans")
    assert {name for name in after if name.startswith(shared)} == {name for name in before if name.startswith(shared)}
    assert all(after[name] == when for name, when in before.items() if name.startswith(shared))


@pytest.mark.parametrize("lost", ["labels.csv", "model", "features.npy", "store", "heads.json", "head.safetensors"])
def test_what_was_deleted_is_made_again(run: Path, shapes: Path, finished: tuple[Path, RunSummary], lost: str) -> None:
    paths = [path for path in run.rglob(lost) if not path.is_symlink() and "current" not in path.parts]
    for path in paths:
        if path.exists():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    cluster(shapes, settings(), run)
    assert paths
    assert all(path.exists() for path in paths)
    assert (run / "labels.csv").read_bytes() == (finished[0] / "labels.csv").read_bytes()


def test_views_may_be_deleted_and_are_made_again_only_when_they_are_needed(run: Path, shapes: Path) -> None:
    views = place(run, VIEWS)
    shutil.rmtree(views)
    before = written(run)
    cluster(shapes, settings(), run)
    assert written(run) == before
    cluster(shapes, settings(clusters=3), run)
    assert (views / "weak.npy").exists()
    assert load(run, PROBABILITIES).shape == (96, 3)


def test_nothing_is_computed_beside_the_heads_before_their_inputs_are_complete(
    run: Path, shapes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = place(run, VIEWS)
    shutil.rmtree(views)
    complete: list[bool] = []
    monkeypatch.setattr(Execution, "_start_background_work", lambda _: complete.append((views / "weak.npy").exists()))
    cluster(shapes, settings(clusters=3), run)
    assert complete == [True]


def test_scores_belong_to_one_result(run: Path, shapes: Path) -> None:
    (open_result(run).folder / "scores.json").write_text("{}")
    cluster(shapes, settings(clusters=3), run)
    assert not (open_result(run).folder / "scores.json").exists()


def test_a_run_among_its_own_images_does_not_eat_itself(drawings: Path) -> None:
    out = drawings / "drawings.spice"
    assert cluster(drawings, settings(), out).images == 96
    assert cluster(drawings, settings(), out).images == 96


def test_a_second_process_is_refused(run: Path, shapes: Path) -> None:
    with locked(run), pytest.raises(UserError, match="in use by process"):
        cluster(shapes, settings(), run)


def test_an_output_that_cannot_be_written_is_one_line(shapes: Path) -> None:
    forbidden = Path("/sys/spice-run")  # nobody may write here, root neither
    with pytest.raises(UserError, match=r"cannot create the folder /sys/spice-run: .*; choose another one with --out"):
        cluster(shapes, settings(), forbidden)


def test_broken_files_are_listed_and_left_out(drawings: Path, tmp_path: Path) -> None:
    (drawings / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 and no more")
    summary = cluster(drawings, settings(), tmp_path / "run")
    assert (summary.images, summary.scan.problems) == (96, 1)
    assert "broken.jpg" in place(tmp_path / "run", PROBLEMS).read_text()


def test_blank_pages_do_not_stop_a_run(drawings: Path, tmp_path: Path) -> None:
    for number in range(6):
        Image.new("RGB", (48, 48), (250 + number, 250, 250)).save(drawings / f"blank-{number}.png")
    summary = cluster(drawings, settings(clusters=5), tmp_path / "run")
    assert summary.images == 102
    blank = [cluster for path, cluster in zip(*read_labels(tmp_path / "run")[:2], strict=True) if "blank" in path]
    assert np.bincount(blank).max() >= 5  # of six


def test_a_folder_without_images_is_nothing_readable(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "notes.txt").write_text("no image")
    with pytest.raises(NothingReadableError, match="no readable image"):
        cluster(tmp_path / "photos", settings(), tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda run: run.joinpath("manifest.json").unlink(), "not a run folder and not empty"),
        (lambda run: run.joinpath("manifest.json").write_text('{"format": 0}'), "made by an older spice"),
    ],
)
def test_a_folder_that_is_not_our_run_is_left_alone(
    run: Path, shapes: Path, change: Callable[[Path], object], words: str
) -> None:
    change(run)
    with pytest.raises(UserError, match=words):
        cluster(shapes, settings(), run)


def test_a_run_of_images_in_memory_says_how_to_go_on(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (20, 16, 16, 3), dtype=np.uint8)
    cluster(images, settings(clusters=2), tmp_path / "run")
    with pytest.raises(UserError, match=r"made from images in memory; .* run_folder="):
        resume(tmp_path / "run")


def test_features_brought_along_are_used_and_their_change_is_seen(shapes: Path, tmp_path: Path) -> None:
    names = sorted(str(path.relative_to(shapes)) for path in shapes.rglob("*.png"))
    kinds = np.unique([name.split("/")[0] for name in names], return_inverse=True)[1]
    random = np.random.default_rng(0)
    np.save(tmp_path / "mine.npy", np.eye(4, 16)[kinds] + 0.1 * random.standard_normal((96, 16)))
    brought = settings().model_copy(update={"encoder": f"features:{tmp_path / 'mine.npy'}"})
    summary = cluster(shapes, brought, tmp_path / "run")
    assert summary.views is not None
    assert summary.views.space == "features"
    labels = read_labels(tmp_path / "run")
    assert adjusted_rand_score([path.split("/")[0] for path in labels.path], labels.cluster) == 1.0
    before = load(tmp_path / "run", FEATURES)
    np.save(tmp_path / "mine.npy", np.eye(4, 16)[kinds] + 0.2 * random.standard_normal((96, 16)))
    cluster(shapes, brought, tmp_path / "run")
    assert not np.array_equal(load(tmp_path / "run", FEATURES), before)


@pytest.mark.parametrize("clusters", [49, 97])
def test_too_many_clusters_are_refused_in_words(shapes: Path, tmp_path: Path, clusters: int) -> None:
    with pytest.raises(UserError, match=f"96 images allow at most 48 groups, got {clusters}"):
        cluster(shapes, settings(clusters=clusters), tmp_path / "run")
