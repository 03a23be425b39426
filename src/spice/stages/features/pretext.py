"""The interface of MoCo, SimCLR and BYOL: two views of a batch in, a loss out (paper III-A).

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
    """A task that needs no labels. All its state is in parameters and buffers."""

    network: Backbone  # the feature model F

    def forward(self, first: Tensor, second: Tensor, *, step: int) -> Outcome:
        """The loss of step `step` for two views (B, C, S, S) of the same images."""
        raise NotImplementedError

    def update_(self, outcome: Outcome, *, step: int) -> None:
        """Called after the optimizer's step."""


class Projection(nn.Module):
    """The projection head P: two layers with a ReLU between (as in MoCo-v2), then unit length.

    BYOL and SimCLR put a batch norm after the first layer (`norm`). BYOL predicts projections of any length (`unit`).
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
    """The paper's 0.999, or less if training is so short that the average would never leave its random start.

    An average with momentum m spans 1 / (1 - m) steps: 1,000 of the paper's 390,000 steps, but a quarter of a run of
    4,000. This one spans a hundredth of the run: 0.975 at 4,000 steps, 0.999 from 100,000 on. (MoCo's authors also use
    0.99 in their demonstration on CIFAR-10, with 20,000 steps.)
    """
    return min(most, max(0.9, 1.0 - 100.0 / steps))
