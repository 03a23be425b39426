"""The network whose first layer is computed from the images."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spice.models.networks import COMPONENTS, WhitenedPatchesNet


@pytest.fixture
def smooth() -> Tensor:
    """Images whose neighboring pixels are alike: (100, 3, 16, 16)."""
    noise = torch.randn(100, 3, 20, 20, generator=torch.Generator().manual_seed(0))
    mixed = torch.einsum("ij,bjhw->bihw", torch.tensor([[1.0, 0.2, 0.0], [0.8, 0.5, 0.0], [0.9, 0.1, 0.3]]), noise)
    return F.avg_pool2d(mixed, 5, stride=1) + 0.4


def test_the_first_layer_takes_the_correlation_out_of_the_patches(smooth: Tensor) -> None:
    model = WhitenedPatchesNet(width=4)
    model.prepare_(smooth)
    inner = model.whitening(smooth)[:, :, 1:-1, 1:-1]  # without the padding
    components = inner[:, : COMPONENTS * 3].transpose(0, 1).flatten(1)
    torch.testing.assert_close(components.cov(), torch.eye(12), rtol=0, atol=0.1)
    assert smooth.transpose(0, 1).flatten(1).corrcoef()[0, 1] > 0.5  # and there was some
    torch.testing.assert_close(inner[:, COMPONENTS * 3 :], -inner[:, : COMPONENTS * 3])


def test_the_first_layer_is_computed_and_not_learned(smooth: Tensor) -> None:
    model = WhitenedPatchesNet(width=4)
    model.prepare_(smooth)
    model(smooth).sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == ["whitening.weight"]


def test_images_of_one_color_everywhere_are_no_reason_to_divide_by_zero() -> None:
    model = WhitenedPatchesNet(width=4, channels=1)
    model.prepare_(torch.full((8, 1, 16, 16), 0.5))
    assert model(torch.rand(2, 1, 16, 16)).isfinite().all()


@pytest.mark.parametrize(("size", "side"), [(8, 1), (16, 2), (28, 3), (32, 4)])
def test_three_blocks_halve_the_map_three_times(size: int, side: int) -> None:
    assert WhitenedPatchesNet(width=4).eval().feature_map(torch.zeros(1, 3, size, size)).shape == (1, 32, side, side)


def test_its_layers_one_after_another_are_the_network(smooth: Tensor) -> None:
    model = WhitenedPatchesNet(width=4).eval()
    model.prepare_(smooth)
    torch.testing.assert_close(nn.Sequential(*model.chain())(smooth), model(smooth))
