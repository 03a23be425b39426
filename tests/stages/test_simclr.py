"""The loss of SimCLR, compared with its formula in loops."""

import math

import pytest
import torch
import torch.nn.functional as F

from spice.models.networks import ResNet
from spice.settings import FeatureSettings
from spice.stages.features.simclr import SimCLR, nt_xent


def in_loops(views: list[list[float]], temperature: float) -> float:
    """Views 2i and 2i + 1 belong together."""

    def similarity(left: int, right: int) -> float:
        return math.exp(sum(a * b for a, b in zip(views[left], views[right], strict=True)) / temperature)

    total = 0.0
    for view in range(len(views)):
        other = view ^ 1
        everything_else = sum(similarity(view, third) for third in range(len(views)) if third != view)
        total -= math.log(similarity(view, other) / everything_else)
    return total / len(views)


def test_the_loss_is_the_formula() -> None:
    pairs = F.normalize(torch.randn(5, 2, 3, generator=torch.Generator().manual_seed(0)), dim=2)
    expected = in_loops(pairs.flatten(0, 1).tolist(), 0.3)
    assert nt_xent(pairs, pairs, rank=0, temperature=0.3).item() == pytest.approx(expected, rel=1e-5)


def test_the_losses_of_two_processes_average_to_that_of_one() -> None:
    pairs = F.normalize(torch.randn(6, 2, 3, generator=torch.Generator().manual_seed(0)), dim=2)
    whole = nt_xent(pairs, pairs, rank=0, temperature=0.3)
    shares = [nt_xent(pairs[rank::2], pairs, rank=rank, temperature=0.3) for rank in range(2)]
    torch.testing.assert_close(sum(shares) / 2, whole)


def test_the_loss_is_symmetric_in_the_two_views() -> None:
    torch.manual_seed(0)
    task = SimCLR(ResNet(10, stem="plain", width=4), FeatureSettings(projection=6))
    first, second = torch.randn(4, 3, 8, 8), torch.randn(4, 3, 8, 8)
    torch.testing.assert_close(task(first, second, step=0).loss, task(second, first, step=0).loss)
