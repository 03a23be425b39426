"""FixMatch: a confident prediction for an image's weak view is the label of its strong view (paper III-C, Eq. y^u).

Shapes: L labeled and U other images in a step, K clusters.
"""

from torch import Tensor

from spice.core import IGNORE, consistency_labels, joint_loss
from spice.stages.joint.algorithms import Algorithm, Batch, register


@register("fixmatch")
class FixMatch(Algorithm):
    """One threshold for all clusters and all of training."""

    views = ("weak", "strong")

    def loss(self, batch: Batch) -> Tensor:
        """L_joint."""
        labeled, weak, strong = batch.logits(batch.labeled, *batch.others, detach=1)  # (L, K), (U, K), (U, K)
        # Every process labels the images of all, because thresholds may depend on all; then it keeps its own.
        processes = batch.processes
        labels = self.label(processes.gather(weak.softmax(dim=1)))[processes.rank :: processes.count]  # (U,)
        batch.confident = (labels != IGNORE).float().mean().item()
        return joint_loss(labeled, batch.labels, strong, labels)

    def label(self, probs: Tensor) -> Tensor:
        """The predicted cluster where the prediction is confident enough, else IGNORE: (U, K) -> (U,)."""
        return consistency_labels(probs, threshold=self.settings.threshold)
