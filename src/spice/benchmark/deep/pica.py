"""PICA: maximizes the difference between the clusters' columns of probabilities (Huang et al., 2020).

Shapes: B images in a batch, D feature width, K clusters.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spice.benchmark.deep.objective import Objective, Schedule, Seen, Start
from spice.core import negative_entropy

AUXILIARY_CLUSTERS = 70


class PICA(Objective):
    """The partition uncertainty index between a batch and three other views of it, and a loss for even cluster sizes.

    A head with 70 clusters and one with K learn in alternate epochs. Constants: `main.py` and `configs/` of the
    authors' repository (Raymond-sci/PICA); the batch is 128 for STL-10. There, all images pass a Sobel filter, and the
    head with 70 clusters also learns from STL-10's unlabeled images.
    """

    views = ("weak", "contrastive", "contrastive", "contrastive")
    published = Schedule(epochs=400, batch=256, learning_rate=1e-4)  # 200 of each head
    size_weight = 2.0

    def __init__(self, start: Start) -> None:
        super().__init__()
        self.backbone, width = start.backbone, start.backbone.features
        self.head, self.over = nn.Linear(width, start.clusters), nn.Linear(width, AUXILIARY_CLUSTERS)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> logits (B, K)."""
        logits: Tensor = self.head(self.backbone(images))
        return logits

    def loss(self, seen: Seen) -> Tensor:
        """The loss of the head that learns in this epoch."""
        head = self.head if seen.epoch.number % 2 else self.over
        probs = head(self.backbone(torch.cat(seen.views))).float().softmax(dim=1)  # (4 B, K)
        first, others = probs.split([len(seen.images), 3 * len(seen.images)])
        return partition_uncertainty(first.repeat(3, 1), others) + self.size_weight * uneven_sizes(first)


def partition_uncertainty(first: Tensor, second: Tensor) -> Tensor:
    """-mean_k ln softmax(cosines of one view's column k with all columns of the other)_k: (B, K), (B, K) -> ()."""
    cosines = F.normalize(first, dim=0).T @ F.normalize(second, dim=0)  # (K, K)
    return F.cross_entropy(cosines, torch.arange(len(cosines), device=cosines.device))


def uneven_sizes(probs: Tensor) -> Tensor:
    """ln K - H(mean p): (B, K) -> (); 0 if all clusters have the same size."""
    return math.log(probs.shape[1]) + negative_entropy(probs)
