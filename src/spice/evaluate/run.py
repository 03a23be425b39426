"""Scores of a run against true labels, with accuracy by reliability and of every head.

Shapes: N images, n of them with a true label, m of these with the labels of every head, H heads.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spice.arrays import open_array
from spice.evaluate.scores import accuracy, confusion, matched_labels, score
from spice.evaluate.truth import Truth
from spice.runs import Result
from spice.runs.artifacts import HEAD_LABELS, KMEANS
from spice.runs.records import HeadsResult
from spice.runs.scores import AccuracyCurve, Confusion, HeadScores, Score, Scores

# Points of a curve, and the smallest share of the images that a point may stand for: with fewer it would be noise.
_POINTS, _LEAST = 100, 0.01


def evaluate_run(run: Result, truth: Truth) -> Scores:
    """Everything that `spice evaluate` reports on a result."""
    labels = run.labels
    known = labels.rows(truth.positions)
    kmeans = open_array(run.need(KMEANS))[truth.positions]
    table = confusion(known.cluster, truth.labels)
    right = matched_labels(known.cluster, truth.labels) == truth.labels  # (n,)
    shown = run.groups.shown[truth.positions]
    heads = _kept_labels(run, len(labels.path), truth)
    return Scores(
        images=len(truth.positions),
        without_label=len(labels.path) - len(truth.positions),
        classes=[truth.classes[number] for number in table.classes],
        spice=_score(known.cluster, truth.labels),
        reliable=_score(known.cluster[known.reliable], truth.labels[known.reliable]),
        kmeans=_score(kmeans, truth.labels),
        edited=_score(shown[shown >= 0], truth.labels[shown >= 0]) if _is_edited(run) else None,
        second_stage=_second_stage(run.heads, *heads) if heads and run.refined else None,
        confusion=Confusion(clusters=table.clusters.tolist(), counts=table.counts.tolist()),
        by_chance=accuracy_curve(known.chance, right),
        by_confidence=accuracy_curve(known.confidence, right),
        heads=_head_scores(*heads) if heads else None,
    )


def _is_edited(run: Result) -> bool:
    return not np.array_equal(run.groups.shown, run.labels.cluster)


def true_classes(truth: Truth, images: int) -> NDArray[np.int32]:
    """(N,) the true class of every image, by its place in `Scores.classes`; -1 if it has no true label."""
    found = np.full(images, -1, dtype=np.int32)
    found[truth.positions] = np.unique(truth.labels, return_inverse=True)[1]
    return found


def accuracy_curve(trust: NDArray[np.float32], right: NDArray[np.bool_]) -> AccuracyCurve:
    """Accuracy of the most trusted images, by how many are kept; images of equal trust are kept or dropped together.

    Clusters are matched to classes on all images, not again on those that are kept.
    """
    order = np.argsort(-trust, kind="stable")
    ordered = trust[order]
    counts = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1, len(trust))  # ends of runs of equal trust
    counts = np.unique(np.append(counts[counts >= _LEAST * len(trust)], len(trust)))
    shown = counts[np.unique(np.linspace(0, len(counts) - 1, _POINTS).round().astype(np.int64))]
    correct = np.cumsum(right[order])[shown - 1]
    return AccuracyCurve(share=_rounded(shown / len(trust)), acc=_rounded(correct / shown))


def _head_scores(clusters: NDArray[np.int64], classes: NDArray[np.int64]) -> HeadScores:
    """Accuracy of every head at each epoch when heads were scored: (snapshots, H, m), (m,)."""
    acc = [_rounded([accuracy(head, classes) for head in snapshot]) for snapshot in clusters]
    return HeadScores(images=len(classes), acc=acc)


def _second_stage(heads: HeadsResult, clusters: NDArray[np.int64], classes: NDArray[np.int64]) -> Score:
    """The selected head before joint training."""
    return _score(clusters[heads.epochs.index(heads.selected.epoch), heads.selected.head], classes)


def _kept_labels(run: Result, images: int, truth: Truth) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The clusters that heads gave to images with a true label, and those labels: (snapshots, H, m), (m,).

    None if the run has not kept them.
    """
    path = run / HEAD_LABELS
    if not path.exists():
        return None
    with np.load(path) as arrays:
        rows, clusters = arrays["rows"], arrays["labels"]
    class_of = np.full(images, -1)
    class_of[truth.positions] = truth.labels
    known = class_of[rows] >= 0
    return (clusters[:, :, known].astype(np.int64), class_of[rows][known]) if known.any() else None


def _score(clusters: NDArray[np.integer], truth: NDArray[np.int64]) -> Score:
    if len(truth) == 0:
        return Score(images=0)
    scores = score(clusters, truth)._asdict()
    return Score(images=len(truth), **{name: round(value, 4) for name, value in scores.items()})


def _rounded(values: ArrayLike) -> list[float]:
    return [round(float(value), 4) for value in np.asarray(values)]
