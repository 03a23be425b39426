"""FreeMatch: FixMatch with thresholds that adapt to what the network has learned.

Wang et al., "FreeMatch: Self-adaptive Thresholding for Semi-supervised Learning" (2023). The threshold starts at 1/K
and rises with the mean confidence. It is lower for clusters that are predicted less often. FreeMatch's second part, the
loss for class fairness, is left out.

Shapes: U unlabeled images in a step, K clusters.
"""

import torch
from torch import Tensor

from spice.core import IGNORE
from spice.settings import JointSettings
from spice.stages.joint.algorithms import register
from spice.stages.joint.fixmatch import FixMatch


@register("freematch")
class FreeMatch(FixMatch):
    """FixMatch with a threshold per cluster, from running averages of the predictions."""

    momentum = 0.999

    def __init__(self, settings: JointSettings, clusters: int) -> None:
        super().__init__(settings, clusters)
        self.confidence = torch.full((), 1 / clusters)
        self.shares = torch.full((clusters,), 1 / clusters)

    def label(self, probs: Tensor) -> Tensor:
        """Update the averages, then label the confident images as in FixMatch: (U, K) -> (U,)."""
        confidence, cluster = probs.max(dim=1)
        self.confidence = self._average(self.confidence.to(probs), confidence.mean(dim=0))
        self.shares = self._average(self.shares.to(probs), probs.mean(dim=0))
        return torch.where(confidence >= self.thresholds()[cluster], cluster, IGNORE)

    def thresholds(self) -> Tensor:
        """The current threshold of each cluster: (K,)."""
        return self.confidence * self.shares / self.shares.max()

    def state(self) -> dict[str, Tensor]:
        """The running averages."""
        return {"confidence": self.confidence, "shares": self.shares}

    def restore_(self, state: dict[str, Tensor]) -> None:
        """Continue from saved averages."""
        self.confidence, self.shares = state["confidence"], state["shares"]

    def _average(self, running: Tensor, current: Tensor) -> Tensor:
        return self.momentum * running + (1 - self.momentum) * current
