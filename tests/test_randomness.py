"""Layers start from (seed, purpose), whatever was drawn before."""

import torch
from torch import nn

from spice.randomness import seeded


def test_same_purpose_same_layer_and_the_global_state_is_left_alone() -> None:
    torch.manual_seed(1)
    with seeded(0, "features"):
        first = nn.Linear(3, 3)
    after = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(1), after)
    with seeded(0, "features"):
        assert torch.equal(nn.Linear(3, 3).weight, first.weight)
    with seeded(1, "features"):
        assert not torch.equal(nn.Linear(3, 3).weight, first.weight)
