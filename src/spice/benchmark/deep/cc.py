"""CC, contrastive clustering of the rows (images) and columns (clusters) of a batch's soft labels (Li et al., 2021).

Shapes: B images in a batch, D feature width, P projection width, K clusters.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spice.benchmark.deep.objective import Objective, Schedule, Seen, Start
from spice.core import negative_entropy
from spice.stages.features.pretext import Projection
from spice.stages.features.simclr import nt_xent


class CC(Objective):
    """SimCLR's loss between two views of each image, plus the same loss between two views of each cluster.

    A view of a cluster is its column of probabilities over the batch. The entropy of the cluster sizes keeps clusters
    from staying empty. Constants: `config/config.yaml` of the authors' repository (Yunfan-Li/Contrastive-Clustering),
    which has ResNet-34 at 224 px for every data set.
    """

    views = ("contrastive", "contrastive")
    published = Schedule(epochs=1000, batch=256, learning_rate=3e-4)
    image_temperature, cluster_temperature = 0.5, 1.0

    def __init__(self, start: Start) -> None:
        super().__init__()
        self.backbone, width = start.backbone, start.backbone.features
        self.projection = Projection(width, width, 128)
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, start.clusters))

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> logits (B, K)."""
        logits: Tensor = self.head(self.backbone(images))
        return logits

    def loss(self, seen: Seen) -> Tensor:
        """The loss of the images plus that of the clusters."""
        features = self.backbone(torch.cat(seen.views))  # (2 B, D)
        pairs = torch.stack(self.projection(features).chunk(2), dim=1)  # (B, 2, P)
        first, second = self.head(features).softmax(dim=1).chunk(2)  # (B, K) each
        contrast = nt_xent(pairs, pairs, rank=0, temperature=self.image_temperature)
        return contrast + cluster_contrast(first, second, temperature=self.cluster_temperature)


def cluster_contrast(first: Tensor, second: Tensor, *, temperature: float) -> Tensor:
    """SimCLR's loss on 2 K columns, minus the entropies of both views' mean probabilities: (B, K), (B, K) -> ()."""
    columns = torch.stack([F.normalize(probs.T, dim=1) for probs in (first, second)], dim=1)  # (K, 2, B)
    contrast = nt_xent(columns, columns, rank=0, temperature=temperature)
    return contrast + negative_entropy(first) + negative_entropy(second)
