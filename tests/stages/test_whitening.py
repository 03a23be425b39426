"""The amount of whitening is chosen from two views of each image, without labels."""

import logging

import pytest
import torch
from torch import Tensor

from spice.models.backbone import Backbone
from spice.models.networks import PartialWhitening
from spice.stages.features.health import alignment, uniformity
from spice.stages.features.whitening import AMOUNTS, choose_amount


class Identity(Backbone):
    features = 12

    def forward(self, images: Tensor) -> Tensor:
        return images


def table(seed: int) -> Tensor:
    return torch.randn(400, 12, generator=torch.Generator().manual_seed(seed))


SCALE = torch.tensor([1.0] * 8 + [0.1] * 4)  # eight directions of large variance, four of small


def views(noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Features of plain images, and of two views with noise of this standard deviation in each direction."""
    plain = table(0) * SCALE
    return plain, plain + table(1) * noise, plain + table(2) * noise


def test_directions_that_distinguish_images_are_amplified() -> None:
    """The noise is a hundredth of the deviation of every direction, so all directions distinguish equally well."""
    assert choose_amount(PartialWhitening(Identity()), *views(0.01 * SCALE)) > 0.9


def test_directions_of_pure_noise_stay_small() -> None:
    plain, first, second = views(torch.tensor([0.01] * 8 + [0.1] * 4))
    first[:, 8:] -= plain[:, 8:]
    second[:, 8:] -= plain[:, 8:]
    assert choose_amount(PartialWhitening(Identity()), plain, first, second) < 0.2


def test_the_amount_minimizes_alignment_plus_uniformity(caplog: pytest.LogCaptureFixture) -> None:
    plain, first, second = views(torch.full((12,), 0.05))
    with caplog.at_level(logging.INFO, logger="spice"):
        found = choose_amount(PartialWhitening(Identity()), plain, first, second)

    def sum_at(amount: float) -> float:
        layer = PartialWhitening(Identity())
        layer.fit_(plain, amount)
        with torch.no_grad():
            one, other = (rows / rows.norm(dim=1, keepdim=True) for rows in map(layer.linear, (first, second)))
        return alignment(one, other) + uniformity(one)

    assert 0 < found < 1
    assert found in AMOUNTS
    assert sum_at(found) < min(sum_at(found - 0.1), sum_at(found + 0.1))
    sums = f"{sum_at(found):.2f} ({sum_at(0):.2f} without whitening)"
    assert f"whitening {found:g}, with alignment + uniformity {sums}" in caplog.text


def test_constant_features_are_not_whitened() -> None:
    same = torch.ones(30, 12)
    assert choose_amount(PartialWhitening(Identity()), same, same, same) == 0
