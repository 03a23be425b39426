"""Mean Teacher: the network should predict what its own moving average predicts (Tarvainen and Valpola, 2017).

Loss: cross-entropy of the labeled + w(t) * mean squared difference to the average's probabilities for another view.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.benchmark.semi.pi_model import sigmoid_ramp
from spice.stages.joint.algorithms import Algorithm, Batch, register


@register("mean-teacher")
class MeanTeacher(Algorithm):
    """Its weight, 50, is the one with which FixMatch's authors ran it."""

    views = ("weak", "weak")
    weight = 50.0

    def loss(self, batch: Batch) -> Tensor:
        """The average's prediction for the second view is the target of the first."""
        first, second = batch.others
        labeled, others = batch.logits(batch.labeled, first)
        with torch.no_grad():  # in training mode, so that batch norm uses the batch, as in the network
            target = batch.average(second).softmax(dim=1)  # (U, K)
        difference = F.mse_loss(others.softmax(dim=1), target)
        return F.cross_entropy(labeled, batch.labels) + sigmoid_ramp(batch) * self.weight * difference
