"""Pseudo-labels for clusters of unequal size: every image gets the label of its nearest prototype (not in the paper).

The paper lets every cluster label M // K images, which suits groups of about equal size. Here a prototype is the mean
of the images that are most likely in its cluster, and each image takes the label of the nearest prototype. Each
cluster's M // 4K nearest images (at least one) get its label once more, so that no cluster starves.

Shapes: M images in a batch, D feature width, K clusters, H heads, T = M // 4K.
"""

import torch
from torch import Tensor

from spice.core.checks import check_batch, check_enough_images
from spice.core.fast_prototypes import mark_largest, marked_images, mean_of_marked
from spice.core.probs import one_hot_argmax, one_hot_labels
from spice.core.prototypes import PseudoLabels, cosine, rescaled


def nearest_labels(features: Tensor, probs: Tensor) -> PseudoLabels:
    """One pair for each of the M images, then K * T more, cluster by cluster and nearest first: (P,) or (H, P)."""
    similarity = _similarity(features, probs)  # (..., K, M)
    extra = marked_images(similarity, _central(similarity))  # (..., K, T)
    clusters = torch.arange(extra.shape[-2], device=probs.device).unsqueeze(dim=1).expand_as(extra)
    every = torch.arange(similarity.shape[-1], device=probs.device).expand(*similarity.shape[:-2], -1)  # (..., M)
    nearest = one_hot_labels(one_hot_argmax(similarity))  # (..., M)
    return PseudoLabels(
        image=torch.cat([every, extra.flatten(start_dim=-2)], dim=-1),
        cluster=torch.cat([nearest, clusters.flatten(start_dim=-2)], dim=-1),
    )


def nearest_table(features: Tensor, probs: Tensor) -> Tensor:
    """The same labels as a table for the losses: how often an image has each label, (M, K) or (H, M, K)."""
    similarity = _similarity(features, probs)  # (..., K, M)
    return (_central(similarity) + one_hot_argmax(similarity)).mT


def _similarity(features: Tensor, probs: Tensor) -> Tensor:
    """Cosine of every image's features and every cluster's prototype: (..., K, M)."""
    check_batch(features, probs)
    check_enough_images(probs)
    features = rescaled(features)
    by_cluster = probs.mT  # (..., K, M)
    members = one_hot_argmax(by_cluster)
    count = members.sum(dim=-1, keepdim=True)  # (..., K, 1)
    if not count.all():  # a cluster that is the most likely one of no image: take its most confident image
        surest = torch.zeros_like(members).scatter_(-1, by_cluster.argmax(dim=-1, keepdim=True), 1.0)
        members = torch.where(count == 0, surest, members)
    return cosine(mean_of_marked(members, features, count=count.clamp(min=1)), features)


def _central(similarity: Tensor) -> Tensor:
    """Mark the M // 4K images nearest to each prototype."""
    clusters, images = similarity.shape[-2:]
    return mark_largest(similarity, max(1, images // (4 * clusters)))
