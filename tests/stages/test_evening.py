"""How far features are evened is told by two views of each image, and by nothing else."""

import logging

import pytest
import torch
from torch import Tensor

from spice.models.backbone import Backbone
from spice.models.evened import Evened
from spice.stages.features.health import alignment, uniformity
from spice.stages.features.whitening import SHARES, found_share


class Nothing(Backbone):
    features = 12

    def forward(self, images: Tensor) -> Tensor:
        return images


def table(seed: int) -> Tensor:
    return torch.randn(400, 12, generator=torch.Generator().manual_seed(seed))


SCALE = torch.tensor([1.0] * 8 + [0.1] * 4)  # eight directions of large variance, four of small


def views(noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Features of plain images, and of two views that differ by noise of this deviation in each direction."""
    plain = table(0) * SCALE
    return plain, plain + table(1) * noise, plain + table(2) * noise


def test_directions_that_tell_images_apart_are_raised_to_the_others() -> None:
    """The noise is a hundredth of every direction's own deviation: raised, each tells as much as the largest."""
    assert found_share(Evened(Nothing()), *views(0.01 * SCALE)) > 0.9


def test_directions_of_noise_alone_are_left_small() -> None:
    plain, first, second = views(torch.tensor([0.01] * 8 + [0.1] * 4))
    first[:, 8:] -= plain[:, 8:]
    second[:, 8:] -= plain[:, 8:]
    assert found_share(Evened(Nothing()), plain, first, second) < 0.2


def test_the_share_has_the_least_sum_of_alignment_and_uniformity(caplog: pytest.LogCaptureFixture) -> None:
    plain, first, second = views(torch.full((12,), 0.05))
    with caplog.at_level(logging.INFO, logger="spice"):
        found = found_share(Evened(Nothing()), plain, first, second)

    def sum_at(share: float) -> float:
        layer = Evened(Nothing())
        layer.even_(plain, share)
        with torch.no_grad():
            one, other = (rows / rows.norm(dim=1, keepdim=True) for rows in map(layer.evening, (first, second)))
        return alignment(one, other) + uniformity(one)

    assert 0 < found < 1
    assert found in SHARES
    assert sum_at(found) < min(sum_at(found - 0.1), sum_at(found + 0.1))
    assert f"evened by {found:g}, alignment + uniformity {sum_at(found):.2f} ({sum_at(0):.2f} without)" in caplog.text


def test_features_that_never_change_are_left_as_they_are() -> None:
    same = torch.ones(30, 12)
    assert found_share(Evened(Nothing()), same, same, same) == 0
