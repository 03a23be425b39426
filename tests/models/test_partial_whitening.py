"""The layer that partially whitens a trained network's features."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from spice.models.networks import WHITENING_FLOOR, PartialWhitening, network
from spice.models.parts import split_network
from spice.models.weights import NetworkCard, load_network, save_network
from spice.settings import IMAGENET


@pytest.fixture
def model() -> PartialWhitening:
    torch.manual_seed(0)
    return PartialWhitening(network("whitened-patches", width=1)).eval()  # eight features


@pytest.fixture
def features() -> Tensor:
    """Eight directions, each of half the deviation of the one before, mixed, and not around zero: (500, 8)."""
    generator = torch.Generator().manual_seed(0)
    independent = torch.randn(500, 8, generator=generator) * 0.5 ** torch.arange(8)
    mixing: Tensor = torch.linalg.qr(torch.randn(8, 8, generator=generator)).Q
    return independent @ mixing + 3.0


def variances(features: Tensor) -> Tensor:
    found: Tensor = torch.linalg.eigvalsh(features.double().T.cov())
    return found.float()


def images(count: int = 4) -> Tensor:
    return torch.randn(count, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def test_nothing_changes_until_the_layer_is_computed(model: PartialWhitening) -> None:
    torch.testing.assert_close(model(images()), model.network(images()))


@pytest.mark.parametrize("amount", [0.25, 0.5, 1.0])
def test_variances_move_towards_the_largest_by_the_amount(
    model: PartialWhitening, features: Tensor, amount: float
) -> None:
    model.fit_(features, amount)
    found, before = model.linear(features), variances(features)
    torch.testing.assert_close(variances(found), before ** (1 - amount) * before[-1] ** amount, rtol=1e-3, atol=0)
    torch.testing.assert_close(found.mean(dim=0), torch.zeros(8), rtol=0, atol=1e-4)


def test_directions_stay_the_same(model: PartialWhitening, features: Tensor) -> None:
    model.fit_(features, 0.5)
    torch.testing.assert_close(model.linear.weight, model.linear.weight.T)
    assert torch.linalg.eigvalsh(model.linear.weight).min() >= 1 - 1e-5, "nothing is flipped or shrunk"


def test_noise_is_not_amplified(model: PartialWhitening, features: Tensor) -> None:
    features[:, 0] = 3.0  # no variance at all in a direction
    model.fit_(features, 1.0)
    assert torch.linalg.eigvalsh(model.linear.weight).max() <= WHITENING_FLOOR**-0.5 * 1.001


def test_constant_features_do_not_divide_by_zero(model: PartialWhitening) -> None:
    model.fit_(torch.full((20, 8), 2.0), 1.0)
    assert model(images()).isfinite().all()


def test_the_feature_map_is_whitened_too_and_the_layers_in_sequence_are_the_network(
    model: PartialWhitening, features: Tensor
) -> None:
    model.fit_(features, 0.5)
    with torch.no_grad():
        torch.testing.assert_close(model.feature_map(images()).mean(dim=(2, 3)), model(images()))
        torch.testing.assert_close(torch.nn.Sequential(*model.chain())(images()), model(images()))
    parts = split_network(model, share=0.25, size=16, channels=3)
    assert parts.front is not None
    assert model.linear in parts.tail.modules()


def test_the_file_of_such_a_network_says_so(model: PartialWhitening, features: Tensor, tmp_path: Path) -> None:
    model.fit_(features, 0.5)
    card = NetworkCard(network="whitened-patches", width=1, partial_whitening=True, size=16, normalization=IMAGENET)
    save_network(tmp_path / "it.safetensors", model, card)
    loaded, found = load_network(tmp_path / "it.safetensors")
    assert found == card
    torch.testing.assert_close(loaded(images()), model(images()), rtol=0, atol=0)
