"""Runs to look at: pictures, a map, names that could do harm, and results that need no training."""

from pathlib import Path

import numpy as np
from made_run import add_steps, heads_result, labels_result, make_run
from numpy.typing import NDArray

from spice.data.problems import Problem, Reason
from spice.evaluate import Truth, evaluate_run, true_classes
from spice.report.card_images import choose_images, with_attention
from spice.report.pictures import Attention, write_pictures
from spice.runs import Labels, Result
from spice.runs.artifacts import (
    FEATURES,
    HEAD_LABELS,
    KMEANS,
    MAP,
    NEIGHBORS,
    PICTURES,
    PROBABILITIES,
    REFINED_FEATURES,
    REFINED_NEIGHBORS,
    SCORES,
    TRUTH,
)
from spice.runs.records import ClusteringStats, FeaturesResult, JointResult, StepWarning
from spice.trust.chance import chance

HARMFUL = "<script>alert(1)</script>.jpg"
SIDE = 48
NEIGHBORS_COUNTED = 20

BEFORE = ClusteringStats(
    neighbor_agreement=0.884, prior_neighbor_agreement=0.884, chance_agreement=0.1, confident=0.9, loss=1.5447, empty=1
)
AFTER = ClusteringStats(
    neighbor_agreement=0.966, prior_neighbor_agreement=0.91, chance_agreement=0.1, confident=0.9, loss=1.6, empty=0
)
JOINT = JointResult(
    labeled=150, given=0, moved=7, loss=[1.0, 0.5, 0.25], taught=[0.1, 0.6, 0.9], before=BEFORE, after=AFTER,
    failed_checks=[], used=True,
)  # fmt: skip


def make_pictured_run(folder: Path, *, images: int, clusters: int) -> Result:
    random = np.random.default_rng(0)
    labels = _labels(random, images, clusters)
    neighbors = random.integers(0, images, size=(images, NEIGHBORS_COUNTED))
    points = _points(random, labels.cluster)
    losses = (2 - np.arange(4)[:, None] * 0.1 + random.normal(0, 0.02, size=(4, 3))).tolist()
    overlap = [round(1 - 0.7 * number / clusters, 4) for number in range(clusters)]
    heads = heads_result(losses, head=1)
    answer = labels_result(clusters, neighbors=NEIGHBORS_COUNTED, kmeans_reliable=images // 2, head_overlap=overlap)
    run = make_run(
        folder,
        labels,
        {"heads": heads, "labels": answer},
        source=f"/photos/{HARMFUL}",
        settings={"encoder": "lite0", "heads": {"clusters": clusters, "heads": 3}, "seed": 0},
        problems=[Problem("broken.jpg", Reason.TRUNCATED), Problem(HARMFUL, Reason.NOT_AN_IMAGE, "<b>bold</b>")],
        copy_of={1: 0} if images > 1 else {},
    )
    np.save(run / NEIGHBORS, neighbors)
    sure = np.full((images, clusters), 0.1 / clusters, dtype=np.float32)
    sure[np.arange(images), labels.cluster] += labels.confidence
    np.save(run / PROBABILITIES, sure / sure.sum(axis=1, keepdims=True))
    np.save(run / FEATURES, (np.eye(clusters)[labels.cluster] + random.normal(0, 0.1, (images, clusters))).astype("f4"))
    np.save(run / KMEANS, labels.cluster[::-1].copy())
    np.save(run / MAP, points)
    predicted = np.stack([[(labels.cluster + shift) % clusters for shift in range(3)]] * 4)  # (snapshots, H, N)
    np.savez_compressed(run / HEAD_LABELS, rows=np.arange(images), labels=predicted.astype(np.uint8))
    _write_pictures(run / PICTURES, random, labels, clusters)
    warning = StepWarning(name="UnclearWarning", text=f"look at {HARMFUL}")
    return add_steps(folder, {"heads": heads}, warnings={"heads": [warning]})


def add_all_stages(run: Path, joint: JointResult = JOINT) -> Result:
    """As if stages 1 and 3 had been trained, and the run had been evaluated."""
    features = FeaturesResult(
        method="moco", network="resnet18", epochs=2, alignment=[1.5, 0.4], uniformity=[-0.1, -3.0]
    )
    result = add_steps(run, {"features": features, "joint": joint})
    # The neighbors by the features that the labels come from.
    np.save(result / REFINED_NEIGHBORS, np.load(result / NEIGHBORS))
    np.save(result / REFINED_FEATURES, np.load(result / FEATURES))
    (result / SCORES).write_text(evaluate_run(result, truth_of(result)).model_dump_json())
    np.save(result / TRUTH, true_classes(truth_of(result), len(result.labels.path)))
    return result.reread()


def truth_of(run: Result, *, classes: tuple[str, ...] = ("<b>cat</b>", "dog")) -> Truth:
    """Every image but the first is known; the class is nearly always that of its cluster."""
    cluster = run.labels.cluster[1:]
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
    confidence = random.uniform(0.5, 1, size=images).astype(np.float32)
    rank = np.empty(images, dtype=np.int32)
    for number in range(clusters):
        members = np.flatnonzero(cluster == number)
        rank[members] = random.permutation(len(members))
    paths = [f"album {number % 7}/photo-{number:05d}.jpg" for number in range(images)]
    paths[int(np.flatnonzero((cluster == 0) & (rank == 0))[0])] = HARMFUL  # on a card, on the map, in the list
    other = ((cluster + 1) % clusters).astype(np.int32)
    return Labels(
        path=paths,
        cluster=cluster,
        chance=chance(reliability, NEIGHBORS_COUNTED, clusters),
        confidence=confidence,
        margin=2 * confidence - 1,
        reliability=reliability,
        reliable=reliability > 0.95,
        nearest_other_cluster=other,
        prototype_rank=rank,
        outlier=np.arange(images) % 50 == 3,
        duplicate_of=[paths[0] if row == 1 else "" for row in range(images)],
    )


def _points(random: np.random.Generator, cluster: NDArray[np.int32]) -> NDArray[np.float32]:
    angle = cluster * 2.4
    points = 0.5 + 0.35 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + random.normal(0, 0.04, (len(cluster), 2))
    return np.asarray(points.clip(0, 1), dtype=np.float32)


def _write_pictures(folder: Path, random: np.random.Generator, labels: Labels, clusters: int) -> None:
    some = natural(random, 256)
    chosen = choose_images(labels, clusters)
    ramp = np.linspace(0, 1, 25, dtype=np.float32).reshape(5, 5)
    write_pictures(
        folder,
        lambda rows: some[rows % len(some)],
        images=len(labels.path),
        side=SIDE,
        on_cards=np.concatenate([rows for kinds in chosen for rows in kinds]),
        large=np.concatenate([kinds.prototypes for kinds in chosen]),
        attention=(Attention(row, ramp) for row in np.concatenate(with_attention(chosen)).tolist()),
    )
