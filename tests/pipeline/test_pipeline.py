"""Promises of a run: done once, gone on with, never lost, never told apart by names."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image
from sklearn.metrics import adjusted_rand_score

from spice.errors import NothingReadableError, UserError
from spice.pipeline import cluster, resume
from spice.presets import standard
from spice.runs import Account, locked, read_labels
from spice.runs.folder import RunFolder
from spice.settings import RunSettings


def settings(clusters: int = 4, *, seed: int = 0) -> RunSettings:
    """Few heads and small images: what is tested here is the run, not the clustering."""
    usual = standard(clusters=clusters, size=64, seed=seed)
    return usual.model_copy(update={"heads": usual.heads.model_copy(update={"heads": 8, "epochs": 10})})


@pytest.fixture(scope="module")
def finished(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Account]:
    out = tmp_path_factory.mktemp("finished") / "run"
    return out, cluster(shapes, settings(), out)


@pytest.fixture
def run(finished: tuple[Path, Account], tmp_path: Path) -> Path:
    """A copy of the finished run, to be spoiled."""
    return Path(shutil.copytree(finished[0], tmp_path / "run"))


@pytest.fixture
def drawings(shapes: Path, tmp_path: Path) -> Path:
    """A copy of the images, to be spoiled."""
    return Path(shutil.copytree(shapes, tmp_path / "drawings"))


def written(run: Path) -> dict[str, int]:
    """When each file of the run was written; the manifest and the store note every look."""
    files = (path for path in run.rglob("*") if path.is_file() and "store" not in path.parts)
    return {str(path.relative_to(run)): path.stat().st_mtime_ns for path in files if path.name != ".lock"}


def by_content(run: Path) -> dict[str, int]:
    """Cluster of every image by what it shows."""
    hashes = pq.read_table(run / "images.parquet").column("hash").to_pylist()
    return dict(zip(hashes, read_labels(run).cluster.tolist(), strict=True))


def test_drawings_are_grouped_by_what_they_show(finished: tuple[Path, Account]) -> None:
    labels = read_labels(finished[0])
    truth = [Path(path).parent.name for path in labels.path]
    assert adjusted_rand_score(truth, labels.cluster) > 0.9
    assert labels.reliable.mean() > 0.8


def test_the_account_tells_what_was_done(finished: tuple[Path, Account], shapes: Path) -> None:
    out, account = finished
    assert account.run == str(out)
    assert account.source == str(shapes)
    assert account.images == 96
    assert sum(found.images for found in account.clusters) == 96
    assert account.figures["scan"] == {"images": 96, "problems": 0, "copies": 0}
    assert account.figures["views"]["width"] == 1280
    steps = {"scan", "views", "neighbors", "kmeans", "heads", "labels", "model", "pictures", "report"}
    assert set(account.seconds) == steps
    beside = account.figures["labels"]["kmeans"]
    assert isinstance(beside, dict)
    assert set(beside) == {"reliable", "agreement"}


def test_every_promised_file_is_there_and_no_work_is_left(finished: tuple[Path, Account]) -> None:
    names = {path.name for path in finished[0].iterdir()} - {".lock"}
    assert names == {
        "manifest.json", "images.parquet", "problems.csv", "store", "features.npy", "views", "neighbors.npy",
        "similarities.npy", "kmeans.npy", "heads.json", "head.safetensors", "head_labels.npz", "probabilities.npy",
        "labels.parquet",
        "labels.csv", "model", "map.npy", "pictures", "report.html",
    }  # fmt: skip


def test_the_page_shows_where_the_encoder_sees_each_cluster(finished: tuple[Path, Account]) -> None:
    pictures = finished[0] / "pictures"
    assert len(list(pictures.glob("attention-*.jpg"))) == 4 * 3
    assert (finished[0] / "report.html").read_text().count('class="attention"') == 4 * 3


def test_the_same_command_again_changes_nothing(run: Path, shapes: Path, finished: tuple[Path, Account]) -> None:
    before = written(run)
    again = cluster(shapes, settings(), run)
    assert written(run) == before
    assert again.clusters == finished[1].clusters
    assert resume(run).clusters == finished[1].clusters
    assert written(run) == before


def test_what_a_kill_left_of_a_finished_steps_work_is_removed(run: Path, shapes: Path) -> None:
    before = written(run)
    left = run / "work" / "heads" / RunFolder.open(run).manifest.steps["heads"].key / "even"
    left.mkdir(parents=True)
    (left / "step-000000000044.safetensors").write_bytes(b"its folder was being removed")
    cluster(shapes, settings(), run)
    assert written(run) == before
    assert not (run / "work").exists()


def test_names_and_folders_tell_the_program_nothing(
    shapes: Path, tmp_path: Path, finished: tuple[Path, Account]
) -> None:
    """The label firewall: class folders, and the same images flat under random names, give the same labels."""
    flat = tmp_path / "flat"
    flat.mkdir()
    names = np.random.default_rng(7).permutation(10_000)
    for number, path in enumerate(sorted(shapes.rglob("*.png"))):
        shutil.copy(path, flat / f"{names[number]}.png")
    cluster(flat, settings(), tmp_path / "run")
    assert by_content(tmp_path / "run") == by_content(finished[0])
    for name in ("features.npy", "probabilities.npy", "neighbors.npy", "kmeans.npy"):
        np.testing.assert_array_equal(np.load(tmp_path / "run" / name), np.load(finished[0] / name), err_msg=name)


def test_another_seed_is_another_run(run: Path, shapes: Path) -> None:
    with pytest.raises(UserError, match=r"other settings \(seed was 0, is 1\)"):
        cluster(shapes, settings(seed=1), run)


def test_a_change_redoes_only_what_it_touches(run: Path, shapes: Path) -> None:
    before = written(run)
    account = cluster(shapes, settings(clusters=3), run, redo=True)
    after = written(run)
    changed = {name for name in before if before[name] != after.get(name)}
    assert len(account.clusters) == 3
    assert np.load(run / "probabilities.npy").shape == (96, 3)
    assert {"labels.csv", "heads.json", "kmeans.npy", "model/head.safetensors"} <= changed
    assert not {"features.npy", "views/weak.npy", "images.parquet"} & changed


def test_changed_images_are_seen_and_nothing_is_lost(run: Path, drawings: Path, shapes: Path) -> None:
    labels = (run / "labels.csv").read_bytes()
    table = (run / "images.parquet").read_bytes()
    (drawings / "disc" / "0.png").unlink()
    shutil.copy(drawings / "disc" / "1.png", drawings / "disc" / "copy.png")
    with pytest.raises(UserError, match=r"the images have changed since this run began \(there are 96 now\).*--redo"):
        cluster(drawings, settings(), run)
    assert (run / "labels.csv").read_bytes() == labels
    assert (run / "images.parquet").read_bytes() == table
    assert cluster(shapes, settings(), run).images == 96  # the old images are still known
    account = cluster(drawings, settings(), run, redo=True)
    assert account.figures["scan"]["copies"] == 1
    assert "disc/copy.png" in read_labels(run).path


def test_moved_images_get_their_new_names_and_are_not_encoded_again(run: Path, drawings: Path) -> None:
    before, labels = written(run), by_content(run)
    (drawings / "disc").rename(drawings / "renamed")
    cluster(drawings, settings(), run)
    assert "renamed/0.png" in read_labels(run).path
    assert by_content(run) == labels
    after = written(run)
    assert all(before[name] == after[name] for name in ("features.npy", "views/strong.npy", "heads.json"))


@pytest.mark.parametrize("lost", ["labels.csv", "model", "features.npy", "store", "heads.json"])
def test_what_was_deleted_is_made_again(run: Path, shapes: Path, finished: tuple[Path, Account], lost: str) -> None:
    path = run / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    cluster(shapes, settings(), run)
    assert path.exists()
    assert (run / "labels.csv").read_bytes() == (finished[0] / "labels.csv").read_bytes()


def test_views_may_be_deleted_and_are_made_again_only_when_they_are_needed(run: Path, shapes: Path) -> None:
    shutil.rmtree(run / "views")
    before = written(run)
    cluster(shapes, settings(), run)
    assert written(run) == before
    cluster(shapes, settings(clusters=3), run, redo=True)
    assert (run / "views" / "weak.npy").exists()
    assert np.load(run / "probabilities.npy").shape == (96, 3)


def test_scores_of_old_labels_do_not_outlive_them(run: Path, shapes: Path) -> None:
    (run / "scores.json").write_text("{}")
    cluster(shapes, settings(clusters=3), run, redo=True)
    assert not (run / "scores.json").exists()


def test_a_run_among_its_own_images_does_not_eat_itself(drawings: Path) -> None:
    out = drawings / "drawings.spice"
    assert cluster(drawings, settings(), out).images == 96
    assert cluster(drawings, settings(), out).images == 96


def test_a_second_process_is_refused(run: Path, shapes: Path) -> None:
    with locked(run), pytest.raises(UserError, match="in use by process"):
        cluster(shapes, settings(), run)


def test_an_output_that_cannot_be_written_is_one_line(shapes: Path) -> None:
    forbidden = Path("/sys/spice-run")  # nobody may write here, root neither
    with pytest.raises(UserError, match=r"cannot make the folder /sys/spice-run: .*; give another one with --out"):
        cluster(shapes, settings(), forbidden)


def test_broken_files_are_listed_and_left_out(drawings: Path, tmp_path: Path) -> None:
    (drawings / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 and no more")
    account = cluster(drawings, settings(), tmp_path / "run")
    assert (account.images, account.figures["scan"]["problems"]) == (96, 1)
    assert "broken.jpg" in (tmp_path / "run" / "problems.csv").read_text()


def test_blank_pages_do_not_stop_a_run(drawings: Path, tmp_path: Path) -> None:
    for number in range(6):
        Image.new("RGB", (48, 48), (250 + number, 250, 250)).save(drawings / f"blank-{number}.png")
    account = cluster(drawings, settings(clusters=5), tmp_path / "run")
    assert account.images == 102
    blank = [cluster for path, cluster in zip(*read_labels(tmp_path / "run")[:2], strict=True) if "blank" in path]
    assert np.bincount(blank).max() >= 5  # of six


def test_a_folder_without_images_is_nothing_readable(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "notes.txt").write_text("no image")
    with pytest.raises(NothingReadableError, match="no image that can be read"):
        cluster(tmp_path / "photos", settings(), tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda run: run.joinpath("manifest.json").unlink(), "not empty and not a run folder"),
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
    account = cluster(shapes, brought, tmp_path / "run")
    assert account.figures["views"]["space"] == "features"
    labels = read_labels(tmp_path / "run")
    assert adjusted_rand_score([path.split("/")[0] for path in labels.path], labels.cluster) == 1.0
    before = written(tmp_path / "run")
    np.save(tmp_path / "mine.npy", np.eye(4, 16)[kinds] + 0.2 * random.standard_normal((96, 16)))
    cluster(shapes, brought, tmp_path / "run")
    assert written(tmp_path / "run")["features.npy"] != before["features.npy"]


def test_too_many_clusters_are_refused_in_words(shapes: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="96 images are too few for 97 clusters"):
        cluster(shapes, settings(clusters=97), tmp_path / "run")
