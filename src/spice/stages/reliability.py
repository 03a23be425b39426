"""Which labels can be trusted: those that an image's neighbors share (paper III-C).

Shapes: N images, K clusters, S neighbors (the paper's N_s).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from spice.core import authors_reliable, consistency_ratio, reliable
from spice.errors import SpiceWarning, warn_user
from spice.randomness import generator
from spice.settings import ReliabilitySettings
from spice.stages.joint.sampling import Labeled

PAPER_NEIGHBORS = 100
FEWEST_NEIGHBORS = 5
MAJORITY = 0.5


class NoReliableImagesWarning(SpiceWarning):
    """Some clusters have no image whose neighbors agree with it."""


class Reliability(NamedTuple):
    """How many neighbors agree with each label, and whether that is enough."""

    ratio: Tensor  # (N,) float32, r_i
    reliable: Tensor  # (N,) bool, r_i > threshold


def reliability_neighbors(images: int, clusters: int, settings: ReliabilitySettings) -> int:
    """N_s: the paper's 100, or half the expected cluster where that is fewer; at most all other images.

    r_i is at most (n - 1) / N_s in a cluster of n images, so with N_s = 100 no image of a cluster of 96 could ever be
    reliable. Half of N / K leaves room for clusters down to half the expected size.
    """
    if settings.neighbors is not None:
        return min(settings.neighbors, images - 1)
    expected = images // clusters
    return min(PAPER_NEIGHBORS, max(FEWEST_NEIGHBORS, expected // 2), images - 1)


def label_reliability(
    labels: Tensor, neighbors: Tensor, settings: ReliabilitySettings, *, clusters: int
) -> Reliability:
    """Reliability of every label, from the labels of the nearest images: (N,) and (N, >= S) -> (N,).

    `neighbors` may list more than S, nearest first. A warning names the clusters that have no reliable image.
    """
    count = reliability_neighbors(len(labels), clusters, settings)
    if neighbors.shape[1] < count:
        raise ValueError(f"need {count} neighbors of each image, got {neighbors.shape[1]}")
    ratio = consistency_ratio(labels, neighbors[:, :count])  # (N,)
    trusted = reliable(ratio, threshold=settings.threshold)
    _warn_of_untrusted(labels, trusted, clusters)
    return Reliability(ratio, trusted)


def labels_to_learn(probs: Tensor, neighbors: Tensor, settings: ReliabilitySettings, *, seed: int) -> Labeled:
    """The labels that joint training learns, by `settings.rule`: (N, K) and (N, >= S) -> (R,). May be empty."""
    labels = probs.argmax(dim=1)
    if settings.rule == "all":
        return Labeled(torch.arange(len(labels)), labels)
    judged = label_reliability(labels, neighbors, settings, clusters=probs.shape[1])
    if settings.rule == "authors":
        random = generator(seed, "joint", "balance")
        kept = authors_reliable(
            judged.ratio, probs, threshold=settings.threshold, confidence=settings.confidence, generator=random
        )
    else:
        kept = judged.reliable | _best_of_unreliable(labels, judged, settings.minimum_per_cluster)
    image = kept.nonzero().flatten()
    return Labeled(image, labels[image])


def _best_of_unreliable(labels: Tensor, judged: Reliability, count: int) -> Tensor:
    """The best images of each cluster that has no reliable one, if most of their neighbors agree: (N,) of bool.

    A cluster without labels dissolves in joint training, however clean it is.
    """
    chosen = torch.zeros_like(judged.reliable)
    have = labels[judged.reliable].bincount(minlength=int(labels.max()) + 1)
    for cluster in labels[have[labels] == 0].unique().tolist():  # type: ignore[no-untyped-call]
        members = (labels == cluster).nonzero().flatten()
        best = members[judged.ratio[members].argsort(descending=True, stable=True)[:count]]
        chosen[best[judged.ratio[best] > MAJORITY]] = True
    return chosen


def _warn_of_untrusted(labels: Tensor, trusted: Tensor, clusters: int) -> None:
    sizes = labels.bincount(minlength=clusters)
    kept = labels[trusted].bincount(minlength=clusters)
    without = ((sizes > 0) & (kept == 0)).nonzero().flatten().tolist()
    if without:
        names = ", ".join(f"{cluster} ({sizes[cluster]} images)" for cluster in without[:10])
        more = f" and {len(without) - 10} more" if len(without) > 10 else ""
        warn_user(
            f"no image is reliable in group {names}{more}; look at these before you use them",
            NoReliableImagesWarning,
        )
