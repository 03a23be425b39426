"""BYOL: the loss in extreme cases, and the update of the target."""

import pytest
import torch
import torch.nn.functional as F

from spice.models.networks import ResNet
from spice.settings import FeatureSettings
from spice.stages.features.byol import BYOL


def task(momentum: float | None = 0.9) -> BYOL:
    torch.manual_seed(0)
    return BYOL(ResNet(10, stem="plain", width=4), FeatureSettings(projection=6, momentum=momentum), steps=10).train()


def test_the_loss_is_two_minus_two_cosines_over_both_directions() -> None:
    byol = task()
    first, second = torch.randn(4, 3, 8, 8), torch.randn(4, 3, 8, 8)
    expected = 0.0
    for one, other in ((first, second), (second, first)):
        predicted = byol.predictor.out(
            F.relu(byol.predictor.norm(byol.predictor.hidden(byol.projection(byol.network(one)))))
        )
        target = byol.target_projection(byol.target_network(other))
        expected += (2 - 2 * F.cosine_similarity(predicted, target, dim=1)).mean().item() / 2
    assert byol(first, second, step=0).loss.item() == pytest.approx(expected, rel=1e-5)


def test_the_target_gets_no_gradient() -> None:
    byol = task()
    byol(torch.randn(4, 3, 8, 8), torch.randn(4, 3, 8, 8), step=0).loss.backward()
    for module in (byol.target_network, byol.target_projection):
        assert all(parameter.grad is None for parameter in module.parameters())
    for module in (byol.network, byol.projection, byol.predictor):
        assert all(parameter.grad is not None for parameter in module.parameters())


def test_the_target_moves_more_slowly_in_every_step() -> None:
    byol = task(0.5)
    outcome = byol(torch.randn(4, 3, 8, 8), torch.randn(4, 3, 8, 8), step=0)
    with torch.no_grad():
        byol.network.conv1.weight.fill_(1.0)  # type: ignore[union-attr,operator]
    moved = []
    for step in (0, 5, 10):
        with torch.no_grad():
            byol.target_network.conv1.weight.fill_(0.0)  # type: ignore[union-attr,operator]
        byol.update_(outcome, step=step)
        moved.append(byol.target_network.conv1.weight.mean().item())  # type: ignore[union-attr,operator]
    assert moved == pytest.approx([0.5, 0.25, 0.0])
