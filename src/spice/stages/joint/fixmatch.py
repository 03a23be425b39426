"""FixMatch: a confident prediction for the weak view of an image labels its strong view (paper III-C, Eq. y^u).

Shapes: L labeled and U unlabeled images in a step, K clusters.
"""

from torch import Tensor

from spice.core import IGNORE, consistency_labels, joint_loss
from spice.stages.joint.algorithms import Algorithm, Batch, register


@register("fixmatch")
class FixMatch(Algorithm):
    """FixMatch, with one confidence threshold for all clusters and steps."""

    views = ("weak", "strong")

    def loss(self, batch: Batch) -> Tensor:
        """L_joint, the loss of the paper."""
        labeled, weak, strong = batch.logits(batch.labeled, *batch.unlabeled, detach=1)  # (L, K), (U, K), (U, K)
        # Every process labels the whole batch, because thresholds may depend on it, and then keeps its own images.
        processes = batch.processes
        labels = self.label(processes.gather(weak.softmax(dim=1)))[processes.rank :: processes.count]  # (U,)
        batch.confident = (labels != IGNORE).float().mean().item()
        return joint_loss(labeled, batch.labels, strong, labels)

    def label(self, probs: Tensor) -> Tensor:
        """The predicted cluster if the prediction is confident enough, else IGNORE: (U, K) -> (U,)."""
        return consistency_labels(probs, threshold=self.settings.threshold)
