"""SCAN as published (Van Gansbeke et al., 2020): a clustering step on neighbors, then self-labeling.

SCAN's first step is a feature model, here that of stage 1. `spice.benchmark.rivals.scan` has the same loss on frozen
features.

Shapes: N images, B of them in a batch, S neighbors, D feature width, K clusters.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spice.benchmark.deep.objective import Objective, Schedule, Seen, Start
from spice.benchmark.rivals.scan import ENTROPY_WEIGHT, NEIGHBORS, scan_loss
from spice.neighbors import nearest, unit_rows
from spice.stages.joint.train import ClusteringNetwork


class NeighborStep(Objective):
    """SCAN's second step: strong views of an image and one of its 20 nearest neighbors should get the same cluster.

    Constants: `configs/scan/` of the authors' repository (wvangansbeke/Unsupervised-Classification), for STL-10. For
    CIFAR-10 there are 50 epochs, for CIFAR-100-20 batches of 512. All three have one head and train all layers.
    """

    views = ("strong", "strong")
    published = Schedule(epochs=100, batch=128, learning_rate=1e-4, weight_decay=1e-4)
    neighbors: Tensor  # (N, S)

    def __init__(self, start: Start) -> None:
        super().__init__()
        self.network = ClusteringNetwork(start.backbone, nn.Linear(start.backbone.features, start.clusters))
        found = nearest(unit_rows(start.features), min(NEIGHBORS, start.images - 1)).index
        self.register_buffer("neighbors", found)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> logits (B, K)."""
        logits: Tensor = self.network(images)
        return logits

    def shown(self, images: Tensor, random: torch.Generator) -> tuple[Tensor, Tensor]:
        """Each image and a random one of its neighbors."""
        choice = torch.randint(self.neighbors.shape[1], (len(images),), generator=random)
        return images, self.neighbors.cpu()[images, choice]

    def loss(self, seen: Seen) -> Tensor:
        """The loss of pairs of neighbors."""
        images, neighbors = self(torch.cat(seen.views)).float().T.unsqueeze(0).chunk(2, dim=2)  # (1, K, B) each
        return scan_loss(images, neighbors, entropy_weight=ENTROPY_WEIGHT).squeeze(0)


class SelfLabeling(Objective):
    """SCAN's third step: a strong view learns the prediction for a weak view if that is confident.

    All clusters have the same weight in the loss, however many confident images they have. Constants:
    `configs/selflabel/selflabel_cifar10.yml` of the authors' repository.
    """

    views = ("weak", "strong")
    published = Schedule(epochs=200, batch=1000, learning_rate=1e-4, weight_decay=1e-4)

    def __init__(self, network: nn.Module, *, threshold: float = 0.99) -> None:
        super().__init__()
        self.network, self.threshold = network, threshold

    @classmethod
    def of(cls, start: Start) -> "SelfLabeling":
        head = nn.Linear(start.backbone.features, start.clusters)
        return cls(ClusteringNetwork(start.backbone, head), threshold=0.0)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> logits (B, K)."""
        logits: Tensor = self.network(images)
        return logits

    def loss(self, seen: Seen) -> Tensor | None:
        """The loss of the confident images; None if there are none."""
        weak, strong = seen.views
        with torch.no_grad():
            confidence, labels = self(weak).softmax(dim=1).max(dim=1)
        kept = confidence > self.threshold
        return balanced_cross_entropy(self(strong)[kept], labels[kept]) if kept.any() else None


def balanced_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy (B, K), (B,) in which all classes that occur have the same weight."""
    counts = labels.bincount(minlength=logits.shape[1])  # (K,)
    weights = 1.0 / (counts.clamp(min=1) * (counts > 0).sum())
    return (F.cross_entropy(logits, labels, reduction="none") * weights[labels]).sum()
