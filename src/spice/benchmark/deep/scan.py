"""SCAN as published: backbone and heads learn that neighbors agree, then their own confident predictions.

Van Gansbeke et al. (2020), whose first step is a feature model, here that of stage 1. `spice.benchmark.rivals.scan` has
the same loss on frozen features.

Shapes: N images, B of them in a batch, S neighbors, D feature width, H heads, K clusters.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spice.benchmark.deep.objective import Objective, Pictures, Schedule, Seen, Start
from spice.benchmark.rivals.neighbor_heads import LinearHeads
from spice.benchmark.rivals.scan import ENTROPY_WEIGHT, HEADS, NEIGHBORS, scan_loss
from spice.neighbors import nearest, unit_rows
from spice.randomness import generator
from spice.stages.joint.train import ClusteringNetwork


class NeighborStep(Objective):
    """SCAN's second step: strong views of an image and of one of its 20 neighbors get the same cluster.

    Ten heads learn at once; the one with the least loss over the last epoch is kept.
    """

    views = ("strong", "strong")
    published = Schedule(epochs=100, batch=128, learning_rate=1e-4, weight_decay=1e-4)
    neighbors: Tensor  # (N, S)
    losses: Tensor  # (H,) summed over the epoch

    def __init__(self, start: Start, *, seed: int = 0) -> None:
        super().__init__()
        self.backbone = start.backbone
        random = generator(seed, "scan", "heads")
        self.heads = LinearHeads(HEADS, start.backbone.features, start.clusters, random=random)
        found = nearest(unit_rows(start.features), min(NEIGHBORS, start.images - 1)).index
        self.register_buffer("neighbors", found)
        self.register_buffer("losses", torch.zeros(HEADS))

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> logits (B, K) of the best head."""
        logits: Tensor = self.heads(self.backbone(images))  # (H, K, B)
        return logits[self.losses.argmin()].T

    def network(self) -> ClusteringNetwork:
        """The backbone and the best head, for the third step."""
        best, clusters = int(self.losses.argmin()), self.heads.clusters
        rows = slice(best * clusters, (best + 1) * clusters)
        head = nn.Linear(self.backbone.features, clusters)
        with torch.no_grad():
            head.weight.copy_(self.heads.weight[rows])
            head.bias.copy_(self.heads.bias[rows, 0])
        return ClusteringNetwork(self.backbone, head)

    def shown(self, images: Tensor, random: torch.Generator) -> tuple[Tensor, Tensor]:
        """Each image, and one of its neighbors, drawn anew."""
        choice = torch.randint(self.neighbors.shape[1], (len(images),), generator=random)
        return images, self.neighbors.cpu()[images, choice]

    def begin_(self, epoch: int, pictures: Pictures, device: torch.device) -> bool:  # noqa: ARG002
        self.losses.zero_()
        return True

    def loss(self, seen: Seen) -> Tensor:
        """The sum of all heads' losses."""
        images, neighbors = self.heads(self.backbone(torch.cat(seen.views))).chunk(2, dim=2)  # (H, K, B) each
        losses = scan_loss(images, neighbors, entropy_weight=ENTROPY_WEIGHT)  # (H,)
        self.losses += losses.detach()
        return losses.sum()


class SelfLabeling(Objective):
    """SCAN's third step: a confident prediction for a weak view is the label of a strong one.

    Classes have equal weight in the loss, however many confident images they have.
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
        """Of the confident images alone; None if there are none."""
        weak, strong = seen.views
        with torch.no_grad():
            confidence, labels = self(weak).softmax(dim=1).max(dim=1)
        kept = confidence > self.threshold
        return balanced_cross_entropy(self(strong)[kept], labels[kept]) if kept.any() else None


def balanced_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy (B, K), (B,) in which every class that occurs has the same weight."""
    counts = labels.bincount(minlength=logits.shape[1])  # (K,)
    weights = 1.0 / (counts.clamp(min=1) * (counts > 0).sum())
    return (F.cross_entropy(logits, labels, reduction="none") * weights[labels]).sum()
