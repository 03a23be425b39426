"""The answer for every image, and how far to trust it (III-C)."""

from functools import partial
from typing import cast

import numpy as np
import torch

from spice.arrays import open_array, save_array, save_npz
from spice.core import consistency_ratio, reliable
from spice.engine.run import Run
from spice.pipeline.image_flags import flag_images
from spice.pipeline.work import Work
from spice.runs.artifacts import HEAD_LABELS, KMEANS, PAIRS, PROBABILITIES
from spice.runs.labels import Labels, write_labels
from spice.runs.records import HeadsResult, LabelsResult, read_record
from spice.stages.encode import probabilities
from spice.stages.heads.diagnostics import cluster_stability
from spice.stages.labels import make_labels


def labels(work: Work, run: Run) -> LabelsResult:  # noqa: ARG001
    """Write one row per image."""
    from sklearn.metrics import adjusted_rand_score  # late: slow to import

    source, settings = work.answer, work.settings.reliability
    clusters, count = work.settings.heads.clusters, work.counted_neighbors
    probs = probabilities(source.head, source.features)  # (N, K)
    flags, pairs = work.background.take("image flags", partial(flag_images, work))
    found = make_labels(work.inputs.collection.paths, source.features, probs, source.neighbors, settings, flags=flags)
    save_npz(work / PAIRS, pairs._asdict())
    save_array(work / PROBABILITIES, probs.numpy())
    write_labels(work.folders["labels"], found)
    kmeans = open_array(work / KMEANS, "c")
    ratio = consistency_ratio(torch.from_numpy(kmeans).long(), source.neighbors[:, :count])
    return LabelsResult(
        clusters=clusters,
        neighbors=count,
        threshold=settings.threshold,
        kmeans_reliable=int(reliable(ratio, threshold=settings.threshold).sum()),
        kmeans_agreement=float(adjusted_rand_score(kmeans, found.cluster)),
        head_overlap=_head_overlap(work, found),
    )


def _head_overlap(work: Work, found: Labels) -> list[float] | None:
    """Overlap of each cluster of the answer with those of the other good heads: K numbers; None for one head."""
    record = read_record(work.folders["heads"], "heads")
    assert record is not None, "heads are trained before labels are written"
    good = cast(HeadsResult, record.result).good
    if not good:
        return None
    with np.load(work / HEAD_LABELS) as saved:
        rows, last = saved["rows"], saved["labels"][-1, good]  # (n,), (good heads, n)
    cluster = torch.from_numpy(found.cluster[rows])
    overlap = cluster_stability(cluster, torch.from_numpy(last), work.settings.heads.clusters)  # (K,)
    return [round(value, 4) for value in overlap.tolist()]
