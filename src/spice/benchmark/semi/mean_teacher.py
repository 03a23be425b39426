"""Mean Teacher: the network should answer like its own moving average (Tarvainen and Valpola, 2017).

Loss: cross-entropy of the labeled + w(t) * mean squared distance to the average's probabilities for another view.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.benchmark.semi.loop import Batch, logits_of
from spice.benchmark.semi.ramp import sigmoid_ramp


class MeanTeacher:
    """Its weight, 50, is the one with which FixMatch's authors ran it."""

    views: tuple[str, ...] = ("weak", "weak")
    weight = 50.0

    def loss(self, batch: Batch) -> Tensor:
        """The average teaches."""
        own, teachers = batch.others
        labeled, others = logits_of(batch, batch.labeled, own)
        with torch.no_grad():
            batch.average.train()  # normalized by its batch, as the student is
            taught = batch.average(teachers).softmax(dim=1)  # (U, K)
        apart = F.mse_loss(others.softmax(dim=1), taught)
        return F.cross_entropy(labeled, batch.labels) + sigmoid_ramp(batch.done) * self.weight * apart
