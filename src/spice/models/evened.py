"""A trained network with one more layer, computed and not learned, after which its features vary more evenly.

A small network that contrastive learning has trained for half an hour leaves most of its features' variance in a few
directions, and cosines see little of the others. The layer centers the features and brings the variances of their
directions nearer to one another; all the way would be whitening. Shapes: N images, D feature width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spice.models.backbone import Backbone

# Directions with less than this share of the largest variance are noise, and are not blown up further.
FLOOR = 1e-5


class Evened(Backbone):
    """`network`, then a linear layer, which changes nothing until it is computed."""

    def __init__(self, network: Backbone) -> None:
        super().__init__()
        self.network = network
        self.features = network.features
        self.evening = nn.Linear(network.features, network.features)
        nn.init.eye_(self.evening.weight)
        nn.init.zeros_(self.evening.bias)
        self.exportable = network.exportable  # type: ignore[method-assign]

    @torch.no_grad()
    def even_(self, features: Tensor, share: float) -> None:
        """Compute the layer from features (N, D) of the network: variances go `share` of the way to the largest.

        Of the way in their logarithm: after all of it they are equal, after half of it their ratios are square roots.
        """
        rows = features.double()
        variances, directions = torch.linalg.eigh(rows.T.cov())  # (D,) rising, (D, D) in columns
        largest = variances[-1].clamp(min=1e-12)  # features that never change have none
        scale = (variances / largest).clamp(min=FLOOR) ** (-share / 2)
        weight = (directions * scale) @ directions.T  # the symmetric one of all that do this: it turns nothing
        self.evening.weight.copy_(weight)
        self.evening.bias.copy_(-weight @ rows.mean(dim=0))

    def feature_map(self, images: Tensor) -> Tensor:
        return F.conv2d(self.network.feature_map(images), self.evening.weight[:, :, None, None], self.evening.bias)

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.evening(self.network(images))
        return features

    def chain(self) -> list[nn.Module]:
        return [*self.network.chain(), self.evening]
