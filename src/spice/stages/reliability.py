"""Reliable labels: those that agree with the labels of the nearest images (paper III-C).

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
MIN_NEIGHBORS = 5
MAJORITY = 0.5


class NoReliableImagesWarning(SpiceWarning):
    """Some clusters have no reliable image."""


class Reliability(NamedTuple):
    """The consistency ratio of every image, and whether its label is reliable."""

    ratio: Tensor  # (N,) float32, r_i
    reliable: Tensor  # (N,) bool, r_i > threshold


def reliability_neighbors(images: int, clusters: int, settings: ReliabilitySettings) -> int:
    """N_s: 100 as in the paper, or half the expected cluster size if that is less; at most all other images.

    r_i is at most (n - 1) / N_s in a cluster of n images. So with N_s = 100, no image of a cluster of 96 could be
    reliable. Half of N / K allows for clusters of half the expected size.
    """
    if settings.neighbors is not None:
        return min(settings.neighbors, images - 1)
    expected = images // clusters
    return min(PAPER_NEIGHBORS, max(MIN_NEIGHBORS, expected // 2), images - 1)


def label_reliability(
    labels: Tensor, neighbors: Tensor, settings: ReliabilitySettings, *, clusters: int
) -> Reliability:
    """The reliability of every label, from the labels of the S nearest images: (N,) and (N, >= S) -> (N,).

    A warning names the clusters without a reliable image.
    """
    count = reliability_neighbors(len(labels), clusters, settings)
    if neighbors.shape[1] < count:
        raise ValueError(f"need {count} neighbors of each image, got {neighbors.shape[1]}")
    ratio = consistency_ratio(labels, neighbors[:, :count])  # (N,)
    chosen = reliable(ratio, threshold=settings.threshold)
    _warn_of_unreliable(labels, chosen, clusters)
    return Reliability(ratio, chosen)


def labels_to_learn(probs: Tensor, neighbors: Tensor, settings: ReliabilitySettings, *, seed: int) -> Labeled:
    """The labels for joint training, by `settings.rule`: (N, K) and (N, >= S) -> (R,). May be empty."""
    labels = probs.argmax(dim=1)
    if settings.rule == "all":
        return Labeled(torch.arange(len(labels)), labels)
    reliability = label_reliability(labels, neighbors, settings, clusters=probs.shape[1])
    if settings.rule == "authors":
        random = generator(seed, "joint", "balance")
        kept = authors_reliable(
            reliability.ratio, probs, threshold=settings.threshold, confidence=settings.confidence, generator=random
        )
    else:
        kept = reliability.reliable | _best_of_unreliable(labels, reliability, settings.minimum_per_cluster)
    image = kept.nonzero().flatten()
    return Labeled(image, labels[image])


def _best_of_unreliable(labels: Tensor, reliability: Reliability, count: int) -> Tensor:
    """The best images of each cluster without a reliable image, if most of their neighbors agree: (N,) of bool.

    A cluster without labels dissolves in joint training, even a clean one.
    """
    chosen = torch.zeros_like(reliability.reliable)
    reliable_images = labels[reliability.reliable].bincount(minlength=int(labels.max()) + 1)  # (K,)
    for cluster in labels[reliable_images[labels] == 0].unique().tolist():  # type: ignore[no-untyped-call]
        members = (labels == cluster).nonzero().flatten()
        best = members[reliability.ratio[members].argsort(descending=True, stable=True)[:count]]
        chosen[best[reliability.ratio[best] > MAJORITY]] = True
    return chosen


def _warn_of_unreliable(labels: Tensor, chosen: Tensor, clusters: int) -> None:
    sizes = labels.bincount(minlength=clusters)
    kept = labels[chosen].bincount(minlength=clusters)
    without = ((sizes > 0) & (kept == 0)).nonzero().flatten().tolist()
    if without:
        names = ", ".join(f"{cluster} ({sizes[cluster]} images)" for cluster in without[:10])
        more = f" and {len(without) - 10} more" if len(without) > 10 else ""
        warn_user(
            f"no image is reliable in group {names}{more}; look at these before you use them",
            NoReliableImagesWarning,
        )
