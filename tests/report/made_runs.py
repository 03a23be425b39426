"""Run folders for the page: written by the program's own writers, with answers that need no training."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spice.evaluate import Truth, evaluate_run
from spice.report.chosen import choose, with_attention
from spice.report.pictures import Attention, write_pictures
from spice.runs import Labels, RunFolder, read_labels, write_labels

HARMFUL = "<script>alert(1)</script>.jpg"
SIDE = 48
ASKED = 20


def make_run(folder: Path, *, images: int, clusters: int) -> Path:
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    labels = _labels(random, images, clusters)
    settings = {"encoder": "lite0", "heads": {"clusters": clusters, "heads": 3}, "seed": 0}
    run = RunFolder.begin(folder, source=f"/photos/{HARMFUL}", settings=json.loads(json.dumps(settings)))
    write_labels(folder, labels)
    neighbors = random.integers(0, images, size=(images, ASKED))
    np.save(folder / "neighbors.npy", neighbors)
    np.save(folder / "kmeans.npy", labels.cluster[::-1].copy())
    np.save(folder / "map.npy", _points(random, labels.cluster))
    _write_scan(folder, labels.path)
    losses = (2 - np.arange(4)[:, None] * 0.1 + random.normal(0, 0.02, size=(4, 3))).tolist()
    selected = {"epoch": 20, "head": 1, "loss": losses[3][1]}
    content = {"epochs": [5, 10, 15, 20], "loss": losses, "score": losses, "selected": selected, "good": [0]}
    (folder / "heads.json").write_text(json.dumps(content))
    said = np.stack([np.stack([(labels.cluster + shift) % clusters for shift in range(3)])] * 4)  # (looks, H, N)
    np.savez_compressed(folder / "head_labels.npz", rows=np.arange(images), labels=said.astype(np.uint8))
    _write_pictures(folder, random, labels, clusters)
    run.finish("scan", "a", 1.0, {"images": images, "problems": 2, "copies": 1})
    warned = {"name": "GiantClusterWarning", "text": f"look at {HARMFUL}"}
    run.finish("heads", "b", 12.5, {"heads": 3, "agreement": 0.9, "warnings": [json.loads(json.dumps(warned))]})
    beside = {"reliable": images // 2, "agreement": 0.7}
    agreement = [round(1 - 0.7 * number / clusters, 4) for number in range(clusters)]
    figures = {"neighbors": ASKED, "threshold": 0.95, "kmeans": beside, "agreement": agreement}
    run.finish("labels", "c", 0.1, json.loads(json.dumps(figures)))
    return folder


def tell_all(run: Path) -> None:
    """As if stages 1 and 3 had been trained, and the run been evaluated."""
    RunFolder.open(run).finish("features", "f", 60.0, {"alignment": [1.5, 0.4], "uniformity": [-0.1, -3.0]})
    (run / "refined").mkdir()
    signs = {"agreement": 0.884, "common": 0.884, "confident": 0.9, "loss": 1.5447, "empty": 1}
    after = {"agreement": 0.966, "common": 0.91, "confident": 0.9, "loss": 1.6, "empty": 0}
    story = {"loss": [1.0, 0.5, 0.25], "taught": [0.1, 0.6, 0.9], "doubts": [], "before": signs, "after": after}
    (run / "refined" / "joint.json").write_text(json.dumps(story))
    (run / "scores.json").write_text(evaluate_run(run, truth_of(run)).model_dump_json())


def truth_of(run: Path, *, classes: tuple[str, ...] = ("<b>cat</b>", "dog")) -> Truth:
    """Every image but the first is known; the class is nearly always that of its cluster."""
    cluster = read_labels(run).cluster[1:]
    wrong = np.arange(len(cluster)) % 10 == 0
    return Truth(np.arange(1, len(cluster) + 1), ((cluster + wrong) % len(classes)).astype(np.int64), classes)


def natural(random: np.random.Generator, count: int) -> NDArray[np.uint8]:
    """Pictures (count, 3, SIDE, SIDE) with the spectrum of photographs, so that their JPEGs are as large as those of
    photographs.
    """
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(SIDE), np.fft.rfftfreq(SIDE), indexing="ij"))
    frequency[0, 0] = 1 / SIDE
    noise = np.fft.rfft2(random.normal(size=(count, 3, SIDE, SIDE))) / frequency
    waves = np.fft.irfft2(noise, s=(SIDE, SIDE))
    gray = waves.mean(axis=1, keepdims=True)
    mixed = gray + 0.3 * (waves - gray)
    spread = mixed.std(axis=(1, 2, 3), keepdims=True)
    return np.asarray((128 + 55 * mixed / spread).clip(0, 255), dtype=np.uint8)


def _labels(random: np.random.Generator, images: int, clusters: int) -> Labels:
    cluster = random.integers(0, clusters - 1, size=images).astype(np.int32)  # none falls into the last one
    # The higher its number, the worse a cluster.
    reliability = np.clip(random.normal(1.05 - 0.6 * cluster / clusters, 0.1), 0, 1).astype(np.float32)
    probability = random.uniform(0.5, 1, size=images).astype(np.float32)
    rank = np.empty(images, dtype=np.int32)
    for number in range(clusters):
        members = np.flatnonzero(cluster == number)
        rank[members] = random.permutation(len(members))
    paths = [f"album {number % 7}/photo-{number:05d}.jpg" for number in range(images)]
    paths[int(np.flatnonzero((cluster == 0) & (rank == 0))[0])] = HARMFUL  # on a card, on the map, in the list
    other = ((cluster + 1) % clusters).astype(np.int32)
    return Labels(paths, cluster, probability, 2 * probability - 1, reliability, reliability > 0.95, other, rank)


def _points(random: np.random.Generator, cluster: NDArray[np.int32]) -> NDArray[np.float32]:
    angle = cluster * 2.4
    points = 0.5 + 0.35 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + random.normal(0, 0.04, (len(cluster), 2))
    return np.asarray(points.clip(0, 1), dtype=np.float32)


def _write_scan(folder: Path, paths: list[str]) -> None:
    copies = [0 if row == 1 else None for row in range(len(paths))]
    pq.write_table(pa.table({"path": paths, "copy_of": pa.array(copies, pa.int64())}), folder / "images.parquet")
    rows = ["path,reason,detail", "broken.jpg,truncated,", f'"{HARMFUL}",not an image,"<b>bold</b>"']
    (folder / "problems.csv").write_text("\n".join(rows) + "\n")


def _write_pictures(folder: Path, random: np.random.Generator, labels: Labels, clusters: int) -> None:
    some = natural(random, 256)
    chosen = choose(labels, clusters)
    ramp = np.linspace(0, 1, 25, dtype=np.float32).reshape(5, 5)
    write_pictures(
        folder / "pictures",
        lambda rows: some[rows % len(some)],
        images=len(labels.path),
        side=SIDE,
        on_cards=np.concatenate([rows for kinds in chosen for rows in kinds]),
        attention=(Attention(row, ramp) for row in np.concatenate(with_attention(chosen)).tolist()),
    )
