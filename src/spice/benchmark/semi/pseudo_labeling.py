"""Pseudo-Labeling: a sure answer is taken for the label of its own image (Lee, 2013).

Loss: cross-entropy of the labeled + w(t) * cross-entropy of the others with their own surest class, where its
probability is at least 0.95, over all U.
"""

import torch.nn.functional as F
from torch import Tensor

from spice.benchmark.semi.loop import Batch, logits_of
from spice.benchmark.semi.ramp import sigmoid_ramp
from spice.core import IGNORE, consistency_labels


class PseudoLabeling:
    """The threshold is the one with which FixMatch's authors ran it; the published method has none."""

    views: tuple[str, ...] = ("weak",)
    threshold = 0.95

    def loss(self, batch: Batch) -> Tensor:
        """The same view gives the label and learns it."""
        labeled, others = logits_of(batch, batch.labeled, *batch.others)
        sure = consistency_labels(others.detach().softmax(dim=1), threshold=self.threshold)  # (U,)
        own = F.cross_entropy(others, sure, ignore_index=IGNORE, reduction="sum") / len(others)
        return F.cross_entropy(labeled, batch.labels) + sigmoid_ramp(batch.done) * own
