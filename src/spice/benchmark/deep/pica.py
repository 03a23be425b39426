"""PICA: clusters whose columns of probabilities are as unlike each other as possible (Huang et al., 2020).

Shapes: B images in a batch, D feature width, K clusters.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spice.benchmark.deep.objective import Objective, Schedule, Seen, Start
from spice.core import negative_entropy

OVER = 70  # clusters of the auxiliary head


class PICA(Objective):
    """The partition uncertainty index of a batch and of three other views of it, and clusters of equal size.

    A head with 70 clusters and one with K learn in turn by epochs. Constants: `main.py` and `configs/` of the authors'
    repository (Raymond-sci/PICA); the batch is 128 for STL-10. There all images pass a Sobel filter, and the head with
    70 clusters is shown STL-10's unlabeled images too.
    """

    views = ("weak", "contrastive", "contrastive", "contrastive")
    published = Schedule(epochs=400, batch=256, learning_rate=1e-4)  # 200 of each head
    size_weight = 2.0

    def __init__(self, start: Start) -> None:
        super().__init__()
        self.backbone, width = start.backbone, start.backbone.features
        self.head, self.over = nn.Linear(width, start.clusters), nn.Linear(width, OVER)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> logits (B, K)."""
        logits: Tensor = self.head(self.backbone(images))
        return logits

    def loss(self, seen: Seen) -> Tensor:
        """Of all views of every image, by the head whose turn it is."""
        head = self.head if seen.epoch.number % 2 else self.over
        probs = head(self.backbone(torch.cat(seen.views))).float().softmax(dim=1)  # (4 B, K)
        first, others = probs.split([len(seen.images), 3 * len(seen.images)])
        return partition_uncertainty(first.repeat(3, 1), others) + self.size_weight * uneven_sizes(first)


def partition_uncertainty(first: Tensor, second: Tensor) -> Tensor:
    """-mean ln softmax(cosines of one view's column with all of the other's) at its own: (B, K), (B, K) -> ()."""
    cosines = F.normalize(first, dim=0).T @ F.normalize(second, dim=0)  # (K, K)
    return F.cross_entropy(cosines, torch.arange(len(cosines), device=cosines.device))


def uneven_sizes(probs: Tensor) -> Tensor:
    """ln K - H(mean p): (B, K) -> (), 0 if all clusters are equally full."""
    return math.log(probs.shape[1]) + negative_entropy(probs)
