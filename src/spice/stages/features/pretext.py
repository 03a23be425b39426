"""What MoCo, SimCLR and BYOL have in common: two views of a batch in, a loss out (paper III-A).

Shapes: B images of this process, D feature width, P projection width.
"""

from typing import NamedTuple

from torch import Tensor, nn

from spice.models.backbone import Backbone


class Outcome(NamedTuple):
    """The loss of one step, and what it was computed from."""

    loss: Tensor
    features: Tensor  # (B, D) of the first view
    first: Tensor  # (B, P) projections of the two views, of unit length
    second: Tensor  # (B, P)


class Pretext(nn.Module):
    """A task that needs no labels. Everything it must remember is a parameter or a buffer."""

    network: Backbone  # the feature model F

    def forward(self, first: Tensor, second: Tensor, *, step: int) -> Outcome:
        """The loss of step `step` for two views (B, C, S, S) of the same images."""
        raise NotImplementedError

    def update_(self, outcome: Outcome, *, step: int) -> None:
        """What is to be done after the optimizer's step."""


def slowest_momentum(steps: int, *, most: float = 0.999) -> float:
    """The paper's 0.999, or less where training is so short that the average would never leave its random start.

    An average with momentum m looks back over 1 / (1 - m) steps: 1,000 of the 390,000 steps of the paper's training,
    but a quarter of a run of 4,000. Ours look back over a hundredth of the run: 0.975 at 4,000 steps, 0.999 from
    100,000 on. (MoCo's authors, too, use 0.99 in their demonstration on CIFAR-10, with 20,000 steps.)
    """
    return min(most, max(0.9, 1.0 - 100.0 / steps))
