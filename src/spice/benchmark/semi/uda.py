"""UDA: a strong view should get the sharpened prediction for a weak one, where that is confident (Xie et al., 2020).

Loss: cross-entropy of the labeled + cross-entropy of the strong view's prediction with softmax(weak / 0.4), where the
weak view's largest probability exceeds 0.8, over all U. Its schedule that holds back easy labels is left out.
"""

import torch.nn.functional as F
from torch import Tensor

from spice.stages.joint.algorithms import Algorithm, Batch, register


@register("uda")
class UDA(Algorithm):
    """Temperature and threshold as published for CIFAR-10."""

    views = ("weak", "strong")
    temperature = 0.4
    threshold = 0.8

    def loss(self, batch: Batch) -> Tensor:
        """The weak view teaches the strong one."""
        labeled, weak, strong = batch.logits(batch.labeled, *batch.others, detach=1)
        confident = weak.softmax(dim=1).amax(dim=1) > self.threshold  # (U,)
        batch.taught = confident.float().mean().item()
        target = (weak / self.temperature).softmax(dim=1)  # (U, K)
        each = F.cross_entropy(strong, target, reduction="none")  # (U,)
        return F.cross_entropy(labeled, batch.labels) + (each * confident).mean()
