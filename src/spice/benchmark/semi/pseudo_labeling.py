"""Pseudo-Labeling: a confident prediction is the label of its own image (Lee, 2013).

Loss: cross-entropy of the labeled + w(t) * cross-entropy of the others with their own most probable class, where its
probability is at least 0.95, over all U.
"""

import torch.nn.functional as F
from torch import Tensor

from spice.benchmark.semi.pi_model import sigmoid_ramp
from spice.core import IGNORE, consistency_labels
from spice.stages.joint.algorithms import Algorithm, Batch, register


@register("pseudo-labeling")
class PseudoLabeling(Algorithm):
    """The threshold is the one with which FixMatch's authors ran it; the published method has none."""

    views = ("weak",)
    threshold = 0.95

    def loss(self, batch: Batch) -> Tensor:
        """The same view gives the label and learns it."""
        labeled, others = batch.logits(batch.labeled, *batch.others)
        confident = consistency_labels(others.detach().softmax(dim=1), threshold=self.threshold)  # (U,)
        batch.taught = (confident != IGNORE).float().mean().item()
        own = F.cross_entropy(others, confident, ignore_index=IGNORE, reduction="sum") / len(others)
        return F.cross_entropy(labeled, batch.labels) + sigmoid_ramp(batch) * own
