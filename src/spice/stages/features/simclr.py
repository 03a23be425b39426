"""SimCLR: distinguish the other view of an image from all other views in the batch; an alternative to MoCo.

Shapes: B images of this process, N of all processes, P projection width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.engine.processes import ALONE, Processes
from spice.models.backbone import Backbone
from spice.settings import FeatureSettings
from spice.stages.features.pretext import Outcome, Pretext, Projection


class SimCLR(Pretext):
    """One branch for both views, without a queue or a moving average. Best for short training."""

    def __init__(self, network: Backbone, settings: FeatureSettings, *, processes: Processes = ALONE) -> None:
        super().__init__()
        self.network = network
        self.projection = Projection(network.features, network.features, settings.projection, norm=True)
        self.temperature = settings.temperature
        self.processes = processes

    def forward(self, first: Tensor, second: Tensor, *, step: int) -> Outcome:  # noqa: ARG002
        """Both views in one pass, so that batch norm sees them together."""
        features = self.network(torch.cat([first, second]))  # (2 B, D)
        own = torch.stack(self.projection(features).chunk(2), dim=1)  # (B, 2, P)
        everyone = self.processes.gather_with_gradient(own)  # (N, 2, P)
        loss = nt_xent(own, everyone, rank=self.processes.rank, temperature=self.temperature)
        return Outcome(loss, features[: len(first)], own[:, 0], own[:, 1])


def nt_xent(own: Tensor, everyone: Tensor, *, rank: int, temperature: float) -> Tensor:
    """Mean over views i of -ln(exp(z_i·z_j / t) / sum_{k != i} exp(z_i·z_k / t)), where j is the other view.

    Args:
        own: (B, 2, P) the two views of this process's images: rank, rank + count, ... of the batch.
        everyone: (N, 2, P) the two views of all images of the batch.
    """
    images, count = len(everyone), len(everyone) // len(own)
    positions = torch.arange(rank, images, count, device=own.device)  # (B,) of own images in the batch
    itself = torch.stack([2 * positions, 2 * positions + 1], dim=1).flatten()  # (2 B,) rows of everyone.flatten(0, 1)
    other = torch.stack([2 * positions + 1, 2 * positions], dim=1).flatten()
    logits = own.flatten(0, 1) @ everyone.flatten(0, 1).T / temperature  # (2 B, 2 N)
    logits = logits.scatter(1, itself.unsqueeze(1), float("-inf"))
    return F.cross_entropy(logits, other)
