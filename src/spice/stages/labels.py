"""The table of labels: cluster, confidence, reliability and rank of every image.

Shapes: N images, D feature width, K clusters, S neighbors.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from spice.core.fast_prototypes import fast_prototypes
from spice.runs import Labels
from spice.settings import ReliabilitySettings
from spice.stages.reliability import label_reliability, reliability_neighbors
from spice.trust.chance import chance


class ImageFlags(NamedTuple):
    """Outliers and near-duplicates. They do not depend on the clusters."""

    outlier: NDArray[np.bool_]  # (N,)
    duplicate_of: NDArray[np.int64]  # (N,) a row, or -1


def make_labels(
    paths: list[str],
    features: Tensor,
    probs: Tensor,
    neighbors: Tensor,
    settings: ReliabilitySettings,
    *,
    flags: ImageFlags,
) -> Labels:
    """One row per image from features (N, D), the selected head's probabilities (N, K) and neighbors (N, >= S)."""
    clusters = probs.shape[1]
    best = probs.topk(2, dim=1)
    cluster, other = best.indices.unbind(dim=1)  # (N,), (N,)
    confidence, next_confidence = best.values.unbind(dim=1)
    trust = label_reliability(cluster, neighbors, settings, clusters=clusters)
    ratio = trust.ratio.float().numpy()
    return Labels(
        path=paths,
        cluster=cluster.int().numpy(),
        chance=chance(ratio, reliability_neighbors(len(probs), clusters, settings), clusters),
        confidence=confidence.float().numpy(),
        margin=(confidence - next_confidence).float().numpy(),
        reliability=ratio,
        reliable=trust.reliable.numpy(),
        nearest_other_cluster=other.int().numpy(),
        prototype_rank=prototype_rank(features, probs, cluster).int().numpy(),
        outlier=flags.outlier,
        duplicate_of=[paths[original] if original >= 0 else "" for original in flags.duplicate_of.tolist()],
    )


def final_prototypes(features: Tensor, probs: Tensor) -> Tensor:
    """The prototypes of the E-step with all images as one batch (M = N): (K, D)."""
    return fast_prototypes(features, probs, per_cluster=max(1, len(features) // probs.shape[1]))


def prototype_rank(features: Tensor, probs: Tensor, cluster: Tensor) -> Tensor:
    """The rank of each image in its cluster by cosine similarity to the prototype, nearest first: (N,)."""
    centers = final_prototypes(features, probs)  # (K, D)
    # In parts, because a copy of all features may not fit into memory.
    parts = zip(torch.split(features, 16_384), torch.split(cluster, 16_384), strict=True)
    similarity = torch.cat([F.cosine_similarity(part, centers[own]) for part, own in parts])  # (N,)
    # By cluster, then by descending similarity. Equal similarities (exact copies) keep their order.
    order = np.lexsort((-similarity.double().numpy(), cluster.numpy()))
    sizes = cluster.bincount(minlength=probs.shape[1])
    starts = sizes.cumsum(dim=0) - sizes  # (K,)
    rank = cluster.new_empty(len(cluster))
    rank[order] = torch.arange(len(cluster)) - starts[cluster[order]]
    return rank
