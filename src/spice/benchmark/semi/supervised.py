"""The supervised reference: cross-entropy of the labels given, and nothing else."""

import torch.nn.functional as F
from torch import Tensor

from spice.benchmark.semi.loop import Batch, logits_of


class Supervised:
    """With all labels, the last row of Table III."""

    views: tuple[str, ...] = ()

    def loss(self, batch: Batch) -> Tensor:
        """Mean over the labeled images."""
        (logits,) = logits_of(batch, batch.labeled)
        return F.cross_entropy(logits, batch.labels)
