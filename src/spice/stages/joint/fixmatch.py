"""FixMatch: an image teaches its strong view once its weak view is predicted surely enough (paper III-C, Eq. y^u).

Shapes: U images without a fixed label in a step, K clusters.
"""

from torch import Tensor

from spice.core import consistency_labels


class FixMatch:
    """One threshold for all clusters and all of training."""

    def __init__(self, *, threshold: float) -> None:
        self.threshold = threshold

    def label(self, probs: Tensor) -> Tensor:
        """The cluster that each image's weak view is surely in, or IGNORE: (U, K) -> (U,)."""
        return consistency_labels(probs, threshold=self.threshold)

    def state(self) -> dict[str, Tensor]:
        """Nothing to remember."""
        return {}

    def restore_(self, state: dict[str, Tensor]) -> None:
        """Nothing to restore."""
