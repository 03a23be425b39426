"""Runs to open in the explorer: images as files or as stored pixels, neighbors and features that fit the groups."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from made_run import add_steps, labels_result, made_labels, make_run
from numpy.typing import NDArray
from pictured_runs import SIDE, natural
from PIL import Image

from spice.data import Collection, ingest
from spice.data.pixels import COLOR, GRAY
from spice.runs import Labels, Result
from spice.runs.artifacts import FEATURES, IMAGES, MAP, NEIGHBORS, PROBABILITIES, SIMILARITIES, TREE
from spice.runs.folder import STORE
from spice.runs.records import TreeResult

NEIGHBORS_COUNTED = 6
ROTATED = "rotated.jpg"  # 60 x 40 in the file, to be shown 40 x 60
HARMFUL_NAME = "<img src=x onerror=alert(1)>.png"
_COLORS = [(200, 60, 40), (50, 90, 200), (60, 160, 70), (220, 180, 50)]


def make_explored_run(folder: Path, *, images: int = 48, clusters: int = 4) -> Result:
    """Image files of one color per group, beside the run; one lies on its side, and one has a harmful name."""
    photos = folder.parent / "photos"
    photos.mkdir()
    names = [f"{number % clusters} photo {number:03d}.png" for number in range(images)]
    names[0], names[1] = f"0 {HARMFUL_NAME}", f"1 {ROTATED}"
    shades = np.random.default_rng(0).integers(-30, 30, size=(images, 3))
    for number, name in enumerate(names):
        color = tuple(np.clip(np.array(_COLORS[number % clusters]) + shades[number], 0, 255).tolist())
        picture = Image.new("RGB", (60, 40), color)
        exif = Image.Exif()
        if name.endswith(ROTATED):
            exif[274] = 6  # turn it clockwise
        picture.save(photos / name, exif=exif)
    store = ingest(photos, size=SIDE, folder=folder / STORE / str(SIDE))
    cluster = np.array([int(path[0]) for path in store.collection.paths], dtype=np.int32)
    return _finish(folder, store.collection, cluster, clusters, source=str(photos))


def add_tree(run: Result, leaf: NDArray[np.integer], merges: list[list[int]]) -> Result:
    """The run with a merge tree: the leaf of every image, and pairs of nodes in the order in which they are merged."""
    result = add_steps(run.run, {"tree": TreeResult(leaves=len(merges) + 1, information=1.0)})
    lost = np.linspace(0.1, 0.3, len(merges))
    with (result / TREE).open("wb") as file:
        np.savez_compressed(file, leaf=leaf.astype(np.int32), merges=np.array(merges, np.int32), lost=lost)
    return result


def make_large_run(folder: Path, *, images: int, clusters: int) -> Result:
    """Any number of images, of which only the stored pixels exist."""
    random = np.random.default_rng(0)
    cluster = random.integers(0, clusters, size=images).astype(np.int32)
    table = {
        "path": [f"album {number % 50}/photo-{number:06d}.jpg" for number in range(images)],
        "hash": [f"{number:032x}" for number in range(images)],
        "row": np.arange(images),
        "gray": np.zeros(images, dtype=np.bool_),
    }
    stored = folder / STORE / str(SIDE)
    stored.mkdir(parents=True)
    some = natural(random, 512)
    with (stored / COLOR).open("wb") as file:
        for start in range(0, images, len(some)):
            file.write(some[: min(len(some), images - start)].tobytes())
    (stored / GRAY).write_bytes(b"")
    collection = Collection(pa.table(table), ())
    pq.write_table(collection.table, stored / IMAGES.name)
    return _finish(folder, collection, cluster, clusters, source=None)


def _finish(
    folder: Path, collection: Collection, cluster: NDArray[np.int32], clusters: int, *, source: str | None
) -> Result:
    labels = _labels(collection.paths, cluster)
    kept = folder.with_name("kept")
    if (folder / STORE).exists():  # a run is made in a folder that is not there yet
        (folder / STORE).rename(kept)
        folder.rmdir()
    answer = labels_result(clusters, neighbors=NEIGHBORS_COUNTED)
    run = make_run(folder, labels, {"labels": answer}, source=source)
    kept.rename(folder / STORE)
    pq.write_table(collection.table, run / IMAGES)
    random = np.random.default_rng(1)
    neighbors = _neighbors(random, cluster)
    np.save(run / NEIGHBORS, neighbors)
    np.save(run / SIMILARITIES, np.sort(random.uniform(0.5, 1, neighbors.shape).astype(np.float32))[:, ::-1])
    np.save(run / PROBABILITIES, np.eye(clusters, dtype=np.float32)[cluster])
    centers = random.normal(size=(clusters, 2, 8))
    half = labels.prototype_rank % 2  # every group has two halves, into which it can be split
    features = centers[cluster, half] + random.normal(0, 0.05, size=(len(cluster), 8))
    np.save(run / FEATURES, features.astype(np.float32))
    angle = cluster * (2 * np.pi / clusters)
    points = 0.5 + 0.38 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + random.normal(0, 0.03, (len(cluster), 2))
    run.reread()
    np.save(run / MAP, points.clip(0, 1).astype(np.float32))
    return run


def _labels(paths: list[str], cluster: NDArray[np.int32]) -> Labels:
    random = np.random.default_rng(2)
    reliability = random.uniform(0.3, 1, len(paths)).astype(np.float32).round(3)
    confidence = random.uniform(0.5, 1, len(paths)).astype(np.float32)
    return made_labels(
        cluster, reliability, path=paths, confidence=confidence, margin=2 * confidence - 1, reliable=reliability > 0.6
    )


def _neighbors(random: np.random.Generator, cluster: NDArray[np.int32]) -> NDArray[np.int64]:
    """(N, S): mostly of the same group; the first two groups are often mixed up."""
    mixed = np.where(random.random((len(cluster), NEIGHBORS_COUNTED)) < 0.25, 1 - cluster[:, None], cluster[:, None])
    wanted = np.where(cluster[:, None] < 2, mixed, cluster[:, None])
    order = np.argsort(cluster, kind="stable")
    starts = np.searchsorted(cluster[order], np.arange(cluster.max() + 2))
    sizes = np.diff(starts)
    place = (random.random(wanted.shape) * sizes[wanted]).astype(np.int64)
    return np.asarray(order[starts[wanted] + place], dtype=np.int64)
