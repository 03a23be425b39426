"""FreeMatch's self-adaptive thresholds: how sure is sure enough follows what the network has learned so far.

Wang et al., "FreeMatch: Self-adaptive Thresholding for Semi-supervised Learning" (2023). The threshold starts at 1/K
and rises with the mean confidence; a cluster that is predicted less is asked for less.

Shapes: U images without a fixed label in a step, K clusters.
"""

import torch
from torch import Tensor

from spice.core import IGNORE


class FreeMatch:
    """A threshold per cluster, from running averages of the predictions themselves."""

    def __init__(self, *, clusters: int, momentum: float = 0.999) -> None:
        self.momentum = momentum
        self.confidence = torch.full((), 1 / clusters)
        self.shares = torch.full((clusters,), 1 / clusters)

    def label(self, probs: Tensor) -> Tensor:
        """The cluster that each image's weak view is surely in, or IGNORE: (U, K) -> (U,). Moves the averages."""
        confidence, cluster = probs.max(dim=1)
        self.confidence = _average(self.confidence.to(probs), confidence.mean(dim=0), self.momentum)
        self.shares = _average(self.shares.to(probs), probs.mean(dim=0), self.momentum)
        return torch.where(confidence >= self.thresholds()[cluster], cluster, IGNORE)

    def thresholds(self) -> Tensor:
        """The confidence now asked of each cluster: (K,)."""
        return self.confidence * self.shares / self.shares.max()

    def state(self) -> dict[str, Tensor]:
        """The running averages."""
        return {"confidence": self.confidence, "shares": self.shares}

    def restore_(self, state: dict[str, Tensor]) -> None:
        """Go on from saved averages."""
        self.confidence, self.shares = state["confidence"], state["shares"]


def _average(running: Tensor, current: Tensor, momentum: float) -> Tensor:
    return momentum * running + (1 - momentum) * current
