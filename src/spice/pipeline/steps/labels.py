"""The answer for every image, and how far to trust it (III-C)."""

from typing import cast

import numpy as np
import torch
from sklearn.metrics import adjusted_rand_score

from spice.core import consistency_ratio, reliable
from spice.engine.run import Run
from spice.pipeline.work import Work, save_array
from spice.runs.artifacts import HEAD_LABELS, KMEANS, NEIGHBORS, PROBABILITIES, SIMILARITIES
from spice.runs.labels import Labels, write_labels
from spice.runs.records import HeadsResult, LabelsResult, read_record
from spice.stages.answers import Alike, answers
from spice.stages.encode import probabilities
from spice.stages.heads.diagnostics import cluster_stability
from spice.stages.reliability import reliability_neighbors
from spice.trust.duplicates import THRESHOLD, duplicate_of, similar_pairs
from spice.trust.outliers import find_outliers


def labels(work: Work, run: Run) -> LabelsResult:  # noqa: ARG001
    """Write one row per image."""
    source, settings = work.answer, work.settings.reliability
    clusters = work.settings.heads.clusters
    probs = probabilities(source.head, source.features)  # (N, K)
    found = answers(
        work.inputs.collection.paths, source.features, probs, source.neighbors, settings, alike=_alike(work)
    )
    save_array(work / PROBABILITIES, probs.numpy())
    write_labels(work.folders["labels"], found)
    count = reliability_neighbors(len(work), clusters, settings)
    kmeans = np.load(work / KMEANS)
    ratio = consistency_ratio(torch.from_numpy(kmeans).long(), source.neighbors[:, :count])
    return LabelsResult(
        clusters=clusters,
        neighbors=count,
        threshold=settings.threshold,
        kmeans_reliable=int(reliable(ratio, threshold=settings.threshold).sum()),
        kmeans_agreement=float(adjusted_rand_score(kmeans, found.cluster)),
        head_overlap=_head_overlap(work, found),
    )


def _alike(work: Work) -> Alike:
    """By the frozen encoder's features: joint training moves images of one cluster together, alike or not."""
    similarities = np.load(work / SIMILARITIES, mmap_mode="r")
    pairs = similar_pairs(np.load(work / NEIGHBORS, mmap_mode="r"), similarities, THRESHOLD)
    return Alike(
        find_outliers(similarities).outlier, duplicate_of(len(work), pairs, work.inputs.collection.largest_first)
    )


def _head_overlap(work: Work, found: Labels) -> list[float] | None:
    """How far the other good heads find each cluster of the answer too: K numbers; None where there is one head."""
    record = read_record(work.folders["heads"], "heads")
    assert record is not None, "heads are trained before labels are written"
    good = cast(HeadsResult, record.result).good
    if not good:
        return None
    with np.load(work / HEAD_LABELS) as kept:
        rows, last = kept["rows"], kept["labels"][-1, good]  # (n,), (good heads, n)
    cluster = torch.from_numpy(found.cluster[rows])
    overlap = cluster_stability(cluster, torch.from_numpy(last), work.settings.heads.clusters)  # (K,)
    return [round(value, 4) for value in overlap.tolist()]
