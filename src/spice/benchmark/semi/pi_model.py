"""Π-model: two random views of an image should get the same prediction (Laine and Aila, 2017).

Loss: cross-entropy of the labeled + w(t) * mean squared difference of the probabilities of the two views.
"""

import math

import torch.nn.functional as F
from torch import Tensor

from spice.stages.joint.algorithms import Algorithm, Batch, register


@register("pi-model")
class PiModel(Algorithm):
    """Its weight, 10, is the one with which FixMatch's authors ran it."""

    views = ("weak", "weak")
    weight = 10.0

    def loss(self, batch: Batch) -> Tensor:
        """The second view is the target of the first."""
        labeled, first, second = batch.logits(batch.labeled, *batch.others, detach=2)
        difference = F.mse_loss(first.softmax(dim=1), second.softmax(dim=1))
        return F.cross_entropy(labeled, batch.labels) + sigmoid_ramp(batch) * self.weight * difference


def sigmoid_ramp(batch: Batch, *, until: float = 0.4) -> float:
    """w(t) = exp(-5 (1 - t)^2), t rising from 0 to 1 over the first 0.4 of training, while the network knows little."""
    return math.exp(-5.0 * (1.0 - min(1.0, batch.step / batch.steps / until)) ** 2)
