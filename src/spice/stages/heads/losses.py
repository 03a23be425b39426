"""The labels of the E-step and the loss of the M-step, as set in `HeadSettings` (paper III-B and its ablations).

Shapes: M images in a batch, n of them in a sub-batch, D feature width, K clusters, H heads.
"""

from torch import Tensor

from spice.core import (
    PseudoLabels,
    cross_entropy,
    double_softmax_cross_entropy,
    negative_entropy,
    prototype_table,
    size_divergence,
    temperature_cross_entropy,
)
from spice.core.fast_prototypes import fast_prototype_labels, nearest_labels, nearest_table
from spice.core.probs import cluster_probs
from spice.settings import HeadSettings


def label_table(features: Tensor, probs: Tensor, settings: HeadSettings) -> Tensor:
    """E-step: how often each head labels each image as each cluster: (M, D) and (H, M, K) -> (H, M, K)."""
    if _one_label_per_image(settings):
        return nearest_table(features, probs, evenness=_evenness(settings), shares=settings.shares)
    ratio, overlap = settings.center_ratio, settings.overlap
    return prototype_table(features, probs, center_ratio=ratio, overlap=overlap, shares=settings.shares)


def label_pairs(features: Tensor, probs: Tensor, settings: HeadSettings) -> PseudoLabels:
    """E-step: the same labels as a list of pairs, which can be split into sub-batches."""
    if _one_label_per_image(settings):
        return nearest_labels(features, probs, evenness=_evenness(settings), shares=settings.shares)
    ratio, overlap = settings.center_ratio, settings.overlap
    return fast_prototype_labels(features, probs, center_ratio=ratio, overlap=overlap, shares=settings.shares)


def head_losses(logits: Tensor, labels: Tensor, settings: HeadSettings) -> Tensor:
    """M-step: the loss of every head from logits (H, n, K) and labels, (H, n) or a table (H, n, K): (H,)."""
    if settings.loss == "double_softmax":
        losses = double_softmax_cross_entropy(logits, labels)
    elif settings.loss == "temperature":
        losses = temperature_cross_entropy(logits, labels, temperature=settings.temperature)
    else:
        losses = cross_entropy(logits, labels)
    if settings.entropy:
        weight = labels.sum(dim=-1) if labels.ndim == logits.ndim else None  # an image counts once for each label
        probs, shares = cluster_probs(logits), settings.shares
        imbalance = negative_entropy(probs, weight) if shares is None else size_divergence(probs, shares, weight)
        losses = losses + settings.entropy * imbalance
    return losses


def _one_label_per_image(settings: HeadSettings) -> bool:
    """Whether each image gets the label of one prototype. Otherwise each cluster labels its nearest images (the paper).

    Both rules work with known sizes. Then the similarity decides.
    """
    return settings.similarity == "graph" if settings.shares is not None else settings.sizes != "even"


def _evenness(settings: HeadSettings) -> float:
    return settings.evenness if settings.sizes == "found" else 0.0
