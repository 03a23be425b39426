"""The networks are the published ones: by their counts of parameters, and by what they do to an image."""

from typing import cast

import pytest
import torch
from torch import nn

from spice.models.backbone import Backbone
from spice.models.networks import NETWORKS, STEMS, PreActivationBlock, ResNet, Stem, WideResNet, network, stem_for
from spice.stages.features.pretext import Projection


def parameters(module: nn.Module, *, outputs: int = 0) -> int:
    """How many there are, with a linear layer of `outputs` on top."""
    features = module.features if isinstance(module, Backbone) else 0
    return sum(parameter.numel() for parameter in module.parameters()) + outputs * (features + 1)


@pytest.mark.parametrize(
    ("name", "stem", "outputs", "published"),
    [
        ("resnet34", "pool", 0, 21_276_992),
        ("resnet34", "imagenet", 1000, 21_797_672),
        ("resnet18", "imagenet", 1000, 11_689_512),
        ("wrn-28-2", None, 10, 1_467_610),
        ("wrn-28-8", None, 20, 23_359_972),
        ("wrn-37-2", None, 10, 5_929_434),
        ("lite0", None, 1000, 4_652_008),
        ("lite2", None, 1000, 6_092_072),
    ],
)
def test_networks_have_the_published_number_of_parameters(
    name: str, stem: Stem | None, outputs: int, published: int
) -> None:
    assert parameters(network(name, stem=stem), outputs=outputs) == published


@pytest.mark.parametrize(
    ("stem", "size", "side"),
    [("imagenet", 224, 7), ("pool", 96, 7), ("pool", 64, 5), ("plain", 32, 4), ("plain", 28, 4)],
)
def test_each_stem_gives_the_map_the_authors_have_at_its_size(stem: Stem, size: int, side: int) -> None:
    small = ResNet(10, stem=stem, width=8)
    assert small.feature_map(torch.zeros(1, 3, size, size)).shape == (1, 64, side, side)
    assert stem_for(size) == stem


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("channels", [1, 3])
def test_pooled_features_are_the_mean_of_the_feature_map(name: str, channels: int) -> None:
    width = None if name.startswith("lite") else 4
    model = network(name, width=width, channels=channels).eval()
    images = torch.randn(2, channels, 40, 40)
    with torch.no_grad():
        pooled, maps = model(images), model.feature_map(images)
    assert pooled.shape == (2, model.features)
    torch.testing.assert_close(pooled, maps.mean(dim=(2, 3)))


@pytest.mark.parametrize("name", ["resnet18", "wrn-28-2"])
def test_a_fresh_network_keeps_the_signal_and_its_gradient_alive(name: str) -> None:
    model = network(name)
    images = torch.randn(8, 3, 32, 32)
    features: torch.Tensor = model(images)
    assert 0.05 < features.detach().std().item() < 20
    torch.autograd.backward(features.sum())
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


def test_width_scales_the_features() -> None:
    assert [ResNet(18, width=width).features for width in (16, 32, 64)] == [128, 256, 512]
    assert [network(name).features for name in ("wrn-28-2", "wrn-28-8", "wrn-37-2")] == [128, 512, 256]


def test_the_wide_resnets_shortcut_starts_before_the_activation_except_in_the_first_block() -> None:
    for number, block in enumerate(WideResNet(10, 1).eval().blocks):
        assert isinstance(block, PreActivationBlock)
        nn.init.zeros_(block.conv2.weight)  # leaves the shortcut alone
        maps = -torch.ones(1, block.conv1.in_channels, 4, 4)
        active = nn.functional.leaky_relu(block.norm1(maps), 0.1)
        torch.testing.assert_close(block(maps), block.shortcut(maps if number else active))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: network("resnet50"), r"unknown network 'resnet50'; choose from resnet10"),
        (lambda: ResNet(50), r"unknown ResNet depth 50; choose from 10, 18, 34"),
        (lambda: ResNet(18, stem=cast(Stem, "big")), r"unknown stem 'big'; choose from imagenet, pool, plain"),
        (lambda: network("wrn-28-2", stem="pool"), r"wrn-28-2 has a fixed stem"),
        (lambda: network("lite0", width=32), r"lite0 has a fixed width"),
        (lambda: WideResNet(29, 2), r"3 groups has depth 4 \+ 6 n, got 29"),
    ],
)
def test_what_does_not_exist_is_refused_in_words(wrong, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=words):
        wrong()


def test_the_projection_is_two_layers_without_batch_norm_and_ends_on_the_sphere() -> None:
    projection = Projection(512, 512, 128)
    assert parameters(projection) == 512 * 512 + 512 + 512 * 128 + 128  # MoCo-v2's 512-512-128
    features = torch.randn(5, 512)
    projected = projection(features)
    torch.testing.assert_close(projected.norm(dim=1), torch.ones(5))
    by_hand = projection.out(projection.hidden(features).clamp(min=0))
    torch.testing.assert_close(projected, by_hand / by_hand.norm(dim=1, keepdim=True))
    assert Projection(8, 16, 4, unit=False)(torch.randn(3, 8)).norm(dim=1).std() > 0
    assert any(isinstance(m, nn.BatchNorm1d) for m in Projection(8, 16, 4, norm=True).modules())


def test_stems_are_three() -> None:
    assert STEMS == ("imagenet", "pool", "plain")
