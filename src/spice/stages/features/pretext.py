"""The interface of MoCo, SimCLR and BYOL: from two views of a batch to a loss (paper III-A).

Shapes: B images of this process, D feature width, P projection width.
"""

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from spice.models.backbone import Backbone


class Outcome(NamedTuple):
    """The loss of one step and what it was computed from."""

    loss: Tensor
    features: Tensor  # (B, D) of the first view
    first: Tensor  # (B, P) projections of the two views, of unit length
    second: Tensor  # (B, P)


class Pretext(nn.Module):
    """A self-supervised task. All its state is in parameters and buffers."""

    network: Backbone  # the feature model F

    def forward(self, first: Tensor, second: Tensor, *, step: int) -> Outcome:
        """The loss of step `step` for two views (B, C, S, S) of the same images."""
        raise NotImplementedError

    def update_(self, outcome: Outcome, *, step: int) -> None:
        """Update what the optimizer does not. Called after each optimizer step."""


class Projection(nn.Module):
    """The projection head P: linear, ReLU, linear (as in MoCo-v2), then l2-normalization.

    SimCLR and BYOL have a batch norm after the first layer (`norm`). BYOL's projections are not normalized (`unit`).
    """

    def __init__(self, features: int, hidden: int, out: int, *, norm: bool = False, unit: bool = True) -> None:
        super().__init__()
        self.hidden = nn.Linear(features, hidden, bias=not norm)
        self.norm = nn.BatchNorm1d(hidden) if norm else nn.Identity()
        self.out = nn.Linear(hidden, out)
        self.unit = unit

    def forward(self, features: Tensor) -> Tensor:
        """(B, D) -> (B, out)."""
        projected: Tensor = self.out(F.relu(self.norm(self.hidden(features))))
        return F.normalize(projected, dim=1) if self.unit else projected


def default_momentum(steps: int, *, most: float = 0.999) -> float:
    """The paper's 0.999, or less if training is so short that the average would stay near its random start.

    An average with momentum m spans 1 / (1 - m) steps. For 0.999 these are 1,000 steps: few of the paper's 390,000, but
    a quarter of a run of 4,000. By default the average spans a hundredth of the run: the momentum is 0.975 for 4,000
    steps and 0.999 for 100,000 or more. (MoCo's authors use 0.99 in their demo on CIFAR-10, with 20,000 steps.)
    """
    return min(most, max(0.9, 1.0 - 100.0 / steps))
