"""The older rivals: autoencoders, VAE, DEC, NMF."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

from spice.benchmark.choice import AutoencoderSettings
from spice.benchmark.deep.objective import Epoch, Pictures, Seen
from spice.benchmark.methods import bare_pixels
from spice.benchmark.methods.autoencoders import (
    DEC,
    Autoencoder,
    StackedAutoencoder,
    VariationalAutoencoder,
    assignments,
    divergence,
    dropped,
    fit,
    fit_dec,
    sharpened,
    squared_error,
)
from spice.benchmark.rivals.classic import Labels, nmf
from spice.engine.processes import CPU
from spice.engine.run import Run
from spice.evaluate import accuracy
from spice.settings import AugmentSettings, Normalization

SMALL = AutoencoderSettings(size=8, width=4, code=6, layers=(32, 6), epochs=8, batch=32, refining_epochs=4)


class Blocks:
    """Images of 8 x 8 pixels with one bright quarter, which is their class."""

    size, channels = 8, 1

    def __init__(self, count: int = 160) -> None:
        self.classes = np.arange(count) % 4
        noise = torch.Generator().manual_seed(0)
        self.pixels = torch.randint(0, 60, (count, 1, 8, 8), generator=noise)
        for image, place in zip(self.pixels, self.classes.tolist(), strict=True):
            down, right = 4 * (place // 2), 4 * (place % 2)
            image[:, down : down + 4, right : right + 4] += 190
        self.pixels = self.pixels.byte()

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, positions: Tensor) -> Tensor:
        return self.pixels[positions]


KINDS = (Autoencoder, StackedAutoencoder, VariationalAutoencoder)


@pytest.mark.parametrize("method", [*(partial(fit, kind) for kind in KINDS), fit_dec], ids=["AE", "SDAE", "VAE", "DEC"])
def test_codes_tell_apart_what_pixels_tell_apart(method: Callable[..., Labels]) -> None:
    images = Blocks()
    labels = method(images, 4, SMALL, Run(seed=0))
    assert labels.shape == (160,)
    assert accuracy(labels, images.classes) > 0.95
    assert np.array_equal(labels, method(images, 4, SMALL, Run(seed=0)))


def test_nonnegative_parts_tell_them_apart_too() -> None:
    images = Blocks()
    assert accuracy(nmf(bare_pixels(images, 8), 4, seed=0), images.classes) > 0.95


def test_bare_pixels_are_shrunk_and_never_zero() -> None:
    images = Blocks(4)
    images.pixels[0] = 0
    assert bare_pixels(images, 8).shape == (4, 64)
    assert bare_pixels(images, 4).shape == (4, 16)
    assert bare_pixels(images, 8).min() > 0
    assert bare_pixels(images, 8).max() <= 1


def test_the_divergence_is_that_of_two_gaussians() -> None:
    mean, log_variance = torch.randn(5, 3, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)
    codes = Normal(mean, (log_variance / 2).exp())
    expected = kl_divergence(codes, Normal(torch.zeros_like(mean), torch.ones_like(mean))).sum(dim=1)
    assert torch.allclose(divergence(mean, log_variance), expected)


def test_squared_errors_are_summed_over_pixels() -> None:
    assert squared_error(torch.ones(2, 1, 2, 3), torch.zeros(2, 1, 2, 3)).tolist() == [3.0, 3.0]


def test_the_assignments_of_dec_are_the_published_ones() -> None:
    codes, centers = torch.randn(6, 2, dtype=torch.float64), torch.randn(3, 2, dtype=torch.float64)
    soft = assignments(codes, centers)
    wanted = sharpened(soft)
    for i in range(6):
        near = [1 / (1 + float((codes[i] - center).square().sum())) for center in centers]
        assert soft[i].tolist() == pytest.approx([value / sum(near) for value in near])
        sharp = [float(soft[i, k]) ** 2 / float(soft[:, k].sum()) for k in range(3)]
        assert wanted[i].tolist() == pytest.approx([value / sum(sharp) for value in sharp])


def test_an_autoencoder_refuses_sizes_that_it_cannot_halve() -> None:
    with pytest.raises(ValueError, match="a multiple of 8 pixels wide, not 20"):
        fit(Autoencoder, Blocks(8), 2, AutoencoderSettings(size=20), Run())


def test_a_stack_is_its_layers_from_the_image_to_the_code_and_back() -> None:
    torch.manual_seed(0)
    stack = StackedAutoencoder(AutoencoderSettings(size=8, layers=(20, 12, 3)), channels=1)
    images = torch.randn(5, 1, 8, 8)
    first, second, third = stack.layers()
    values = images.flatten(start_dim=1)
    hidden = first.encode(values)
    assert (hidden >= 0).all()  # a ReLU after every layer
    assert torch.equal(second.before(images), hidden)
    code = third.encode(second.encode(hidden))
    assert (code < 0).any()  # but the last
    assert torch.equal(stack.codes(images), code)
    rebuilt = first.decode(second.decode(third.decode(code)))
    assert (second.decode(third.decode(code)) >= 0).all()
    assert (rebuilt < 0).any()
    assert torch.equal(stack.decode(code), rebuilt.view(5, 1, 8, 8))


def test_a_layer_rebuilds_its_inputs_and_leaves_the_layers_before_it_alone() -> None:
    torch.manual_seed(0)
    stack = StackedAutoencoder(AutoencoderSettings(size=8, layers=(20, 6)), channels=1)
    images, layer = torch.randn(4, 1, 8, 8), stack.layers()[1]
    loss = layer.loss(Seen(torch.arange(4), [images], [], Epoch(0, 1), torch.Generator().manual_seed(3)))
    random = torch.Generator().manual_seed(3)
    inputs = layer.before(images)
    code = layer.encode(dropped(inputs, random))
    rebuilt = layer.decode(dropped(code, random))
    assert loss.item() == pytest.approx(float((rebuilt - inputs).square().mean().detach()))
    loss.backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is None for parameter in layer.before.parameters())
    assert all(parameter.grad is not None for parameter in layer.decode.parameters())


def test_a_fifth_of_the_values_is_dropped_and_their_mean_stays() -> None:
    values = dropped(torch.ones(100, 100), torch.Generator().manual_seed(0))
    assert float((values == 0).float().mean()) == pytest.approx(0.2, abs=0.02)
    assert float(values.mean()) == pytest.approx(1.0, abs=0.02)


def test_dec_ends_when_labels_no_longer_change() -> None:
    images = Blocks()
    pictures = Pictures(images, AugmentSettings(), 8, Normalization(mean=(0.5,), std=(0.5,)))
    objective = DEC(nn.Sequential(nn.Flatten(), nn.Linear(64, 2)), torch.randn(4, 2), len(images))
    assert objective.begin_(Epoch(0, 2), pictures, CPU)
    soft = pictures.outputs(objective, CPU)
    assert torch.allclose(objective.targets, sharpened(soft))
    assert not objective.begin_(Epoch(1, 2), pictures, CPU)
    places = torch.tensor([3, 9])
    seen = Seen(places, [images.pixels[places].float()], [], Epoch(0, 2), torch.Generator())
    p, q = objective.targets[places], objective(seen.views[0])
    assert objective.loss(seen).item() == pytest.approx(float((p * (p / q).log()).sum().detach()) / 2, rel=1e-4)
