"""UDA: a strong view should get the sharpened answer of a weak one, where that is sure (Xie et al., 2020).

Loss: cross-entropy of the labeled + cross-entropy of the strong view's answer with softmax(weak / 0.4), where the weak
view's largest probability exceeds 0.8, over all U. Its schedule that holds back easy labels is left out.
"""

import torch.nn.functional as F
from torch import Tensor

from spice.benchmark.semi.loop import Batch, logits_of


class UDA:
    """Temperature and threshold as published for CIFAR-10."""

    views: tuple[str, ...] = ("weak", "strong")
    temperature = 0.4
    threshold = 0.8

    def loss(self, batch: Batch) -> Tensor:
        """The weak view teaches the strong one."""
        labeled, weak, strong = logits_of(batch, batch.labeled, *batch.others)
        sure = weak.detach().softmax(dim=1).amax(dim=1) > self.threshold  # (U,)
        wanted = (weak.detach() / self.temperature).softmax(dim=1)  # (U, K)
        each = F.cross_entropy(strong, wanted, reduction="none")  # (U,)
        return F.cross_entropy(labeled, batch.labels) + (each * sure).mean()
