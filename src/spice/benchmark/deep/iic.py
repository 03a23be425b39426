"""IIC: maximizes the mutual information between the clusters of two views of an image (Ji et al., 2019).

Shapes: B images in a batch, D feature width, H sub-heads, K clusters.
"""

import torch
from torch import Tensor

from spice.benchmark.deep.objective import Epoch, Objective, Pictures, Schedule, Seen, Start
from spice.benchmark.rivals.neighbor_heads import LinearHeads
from spice.randomness import generator

SUB_HEADS = 5
OVERCLUSTERING = 7  # the auxiliary heads have this many times K clusters


class IIC(Objective):
    """Five heads with K clusters and five with 7 K learn in alternate epochs; the best of the former is used.

    The best head has the lowest loss in its last epoch. Constants: `examples/commands.txt` of the authors' repository
    (xu-ji/IIC), with the batch size for CIFAR-10 (STL-10: 700, CIFAR-100-20: 1,000) and the order of heads for
    CIFAR-100-20. There, an image has three to five pairs of views per batch, made with a Sobel filter. Here, it has one
    pair, with the augmentation of all methods.
    """

    # Both views are of one kind, nearly as in the authors' code, where they are crops of the same size without color.
    # With two kinds, the network would gain ln 2 by telling these apart, as the table is symmetrized, and learn little
    # else.
    views = ("contrastive", "contrastive")
    published = Schedule(epochs=4000, batch=660, learning_rate=1e-4)  # 2,000 of each kind of heads
    losses: Tensor  # of the heads with K clusters, summed over their last epoch, (H,)

    def __init__(self, start: Start) -> None:
        super().__init__()
        self.backbone, width, random = start.backbone, start.backbone.features, generator(start.seed, "iic")
        self.heads = LinearHeads(SUB_HEADS, width, start.clusters, random=random)
        self.over = LinearHeads(SUB_HEADS, width, OVERCLUSTERING * start.clusters, random=random)
        self.register_buffer("losses", torch.zeros(SUB_HEADS))

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> logits (B, K) of the best head."""
        logits: Tensor = self.heads(self.backbone(images))  # (H, K, B)
        return logits[self.losses.argmin()].T

    def begin_(self, epoch: Epoch, pictures: Pictures, device: torch.device) -> bool:  # noqa: ARG002
        if epoch.number % 2 == 0:
            self.losses.zero_()
        return True

    def loss(self, seen: Seen) -> Tensor:
        """The mean over the heads that learn in this epoch."""
        heads = self.heads if seen.epoch.number % 2 == 0 else self.over
        first, second = heads(self.backbone(torch.cat(seen.views))).float().softmax(dim=1).chunk(2, dim=2)  # (H, K, B)
        losses = -mutual_information(first, second)  # (H,)
        if heads is self.heads:
            self.losses += losses.detach()
        return losses.mean()


def mutual_information(first: Tensor, second: Tensor) -> Tensor:
    """I(k, l) = sum P_kl ln(P_kl / P_k P_l), P the mean over images of p_k p'_l, symmetrized: (H, K, B) x 2 -> (H,)."""
    joint = first @ second.transpose(1, 2) / first.shape[2]  # (H, K, K)
    joint = ((joint + joint.transpose(1, 2)) / 2).clamp(min=1e-12)
    alone = joint.sum(dim=2).log()  # (H, K)
    return (joint * (joint.log() - alone[:, :, None] - alone[:, None, :])).sum(dim=(1, 2))
