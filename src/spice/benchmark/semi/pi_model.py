"""Π-model: two random views of an image should get the same answer (Laine and Aila, 2017).

Loss: cross-entropy of the labeled + w(t) * mean squared distance of the two answers' probabilities.
"""

import torch.nn.functional as F
from torch import Tensor

from spice.benchmark.semi.loop import Batch, logits_of
from spice.benchmark.semi.ramp import sigmoid_ramp


class PiModel:
    """Its weight, 10, is the one with which FixMatch's authors ran it."""

    views: tuple[str, ...] = ("weak", "weak")
    weight = 10.0

    def loss(self, batch: Batch) -> Tensor:
        """One view teaches the other, which is taken as it is."""
        labeled, first, second = logits_of(batch, batch.labeled, *batch.others)
        apart = F.mse_loss(first.softmax(dim=1), second.softmax(dim=1).detach())
        return F.cross_entropy(labeled, batch.labels) + sigmoid_ramp(batch.done) * self.weight * apart
