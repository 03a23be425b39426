"""A trained network followed by a linear layer that partially whitens its features (for paper III-A).

A small network that contrastive learning has trained for half an hour leaves most of its features' variance in a few
directions, and cosines see little of the others. The layer centers the features and brings the variances of their
directions closer together; amount 1 is full whitening. It is computed from features, not learned.

Shapes: N images, D feature width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spice.models.backbone import Backbone

# Directions with less than this share of the largest variance are noise and are not amplified further.
FLOOR = 1e-5


class PartialWhitening(Backbone):
    """`network`, then a linear layer, which is the identity until `fit_` computes it."""

    def __init__(self, network: Backbone) -> None:
        super().__init__()
        self.network = network
        self.features = network.features
        self.linear = nn.Linear(network.features, network.features)
        nn.init.eye_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        self.exportable = network.exportable  # type: ignore[method-assign]

    @torch.no_grad()
    def fit_(self, features: Tensor, amount: float) -> None:
        """Compute the layer from the network's features (N, D): variances v become v^(1 - amount) max(v)^amount.

        Amount 1 makes all variances equal; amount 0.5 replaces their ratios by square roots.
        """
        rows = features.double()
        variances, directions = torch.linalg.eigh(rows.T.cov())  # (D,) ascending, (D, D) in columns
        largest = variances[-1].clamp(min=1e-12)  # constant features have none
        scale = (variances / largest).clamp(min=FLOOR) ** (-amount / 2)
        weight = (directions * scale) @ directions.T  # ZCA, the symmetric solution: it rotates nothing
        self.linear.weight.copy_(weight)
        self.linear.bias.copy_(-weight @ rows.mean(dim=0))

    def feature_map(self, images: Tensor) -> Tensor:
        return F.conv2d(self.network.feature_map(images), self.linear.weight[:, :, None, None], self.linear.bias)

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.linear(self.network(images))
        return features

    def chain(self) -> list[nn.Module]:
        return [*self.network.chain(), self.linear]
