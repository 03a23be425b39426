"""The supervised reference: cross-entropy of the given labels, and nothing else."""

import torch.nn.functional as F
from torch import Tensor

from spice.stages.joint.algorithms import Algorithm, Batch, register


@register("supervised")
class Supervised(Algorithm):
    """With all labels, the last row of Table III."""

    views = ()

    def loss(self, batch: Batch) -> Tensor:
        """Mean over the labeled images."""
        (logits,) = batch.logits(batch.labeled)
        return F.cross_entropy(logits, batch.labels)
