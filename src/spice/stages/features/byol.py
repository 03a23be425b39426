"""BYOL: predict the projection of the other view by the target network, without negatives; an alternative to MoCo.

Shapes: B images of this process, P projection width.
"""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.core import ema_update_
from spice.engine.schedules import cosine
from spice.models.backbone import Backbone
from spice.settings import FeatureSettings
from spice.stages.features.pretext import Outcome, Pretext, Projection, default_momentum


class BYOL(Pretext):
    """The online branch with its predictor, and the target branch, a moving average of the online branch."""

    def __init__(self, network: Backbone, settings: FeatureSettings, *, steps: int) -> None:
        super().__init__()
        width, out = network.features, settings.projection
        self.network = network
        self.projection = Projection(width, width, out, norm=True, unit=False)
        self.target_network = copy.deepcopy(network).requires_grad_(False)
        self.target_projection = copy.deepcopy(self.projection).requires_grad_(False)
        self.predictor = Projection(out, width, out, norm=True)
        self.base_momentum = default_momentum(steps, most=0.996) if settings.momentum is None else settings.momentum
        self.steps = steps

    def forward(self, first: Tensor, second: Tensor, *, step: int) -> Outcome:  # noqa: ARG002
        """Each view predicts the other: the mean of 2 - 2 cos over both directions."""
        features_first, features_second = self.network(first), self.network(second)  # (B, D)
        predicted_first = self.predictor(self.projection(features_first))  # (B, P), of unit length
        predicted_second = self.predictor(self.projection(features_second))
        with torch.no_grad():
            target_first = F.normalize(self.target_projection(self.target_network(first)), dim=1)
            target_second = F.normalize(self.target_projection(self.target_network(second)), dim=1)
        agreement = (predicted_first * target_second).sum(dim=1) + (predicted_second * target_first).sum(dim=1)
        return Outcome((2.0 - agreement).mean(), features_first, target_first, target_second)

    def update_(self, outcome: Outcome, *, step: int) -> None:  # noqa: ARG002
        """Move the target towards the online branch, with momentum 1 - (1 - m) (1 + cos(pi t / T)) / 2."""
        momentum = 1.0 - (1.0 - self.base_momentum) * cosine(step, self.steps)
        ema_update_(self.target_network, self.network, momentum=momentum)
        ema_update_(self.target_projection, self.projection, momentum=momentum)
