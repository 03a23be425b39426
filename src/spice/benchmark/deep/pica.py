"""PICA: clusters whose columns of probabilities are as unlike each other as possible (Huang et al., 2020).

Shapes: B images in a batch, D feature width, K clusters.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spice.benchmark.deep.objective import Objective, Schedule, Seen, Start
from spice.core import negative_entropy


class PICA(Objective):
    """The partition uncertainty index of a batch and of other views of it, and clusters of equal size."""

    views = ("weak", "contrastive")
    published = Schedule(epochs=200, batch=256, learning_rate=1e-4)
    size_weight = 2.0

    def __init__(self, start: Start) -> None:
        super().__init__()
        self.backbone, self.head = start.backbone, nn.Linear(start.backbone.features, start.clusters)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> logits (B, K)."""
        logits: Tensor = self.head(self.backbone(images))
        return logits

    def loss(self, seen: Seen) -> Tensor:
        """Of both views of every image."""
        first, second = self(torch.cat(seen.views)).float().softmax(dim=1).chunk(2)  # (B, K) each
        return partition_uncertainty(first, second) + self.size_weight * uneven_sizes(first)


def partition_uncertainty(first: Tensor, second: Tensor) -> Tensor:
    """-mean ln softmax(cosines of one view's column with all of the other's) at its own: (B, K), (B, K) -> ()."""
    cosines = F.normalize(first, dim=0).T @ F.normalize(second, dim=0)  # (K, K)
    return F.cross_entropy(cosines, torch.arange(len(cosines), device=cosines.device))


def uneven_sizes(probs: Tensor) -> Tensor:
    """ln K - H(mean p): (B, K) -> (), 0 if all clusters are equally full."""
    return math.log(probs.shape[1]) + negative_entropy(probs)
