"""Color jitter, compared with Pillow: each operation, and their order."""

import itertools

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from torch import Tensor

from spice.augment import color

ENHANCERS = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)


def one_operation(images: Tensor, kind: int, factor: float) -> Tensor:
    """`images` (uint8) after one of the three operations, while the others have no effect, in gray levels."""
    count = len(images)
    factors = torch.ones(count, 3)
    factors[:, kind] = factor
    order = torch.arange(4).expand(count, 4)
    return mapped(images, order, factors, torch.zeros(count))


def mapped(images: Tensor, order: Tensor, factors: Tensor, turn: Tensor) -> Tensor:
    count = len(images)
    maps = color.jitter(
        order,
        factors,
        turn,
        applied=torch.ones(count, dtype=torch.bool),
        gray=torch.zeros(count, dtype=torch.bool),
        channels=images.shape[1],
    )
    return maps.apply(images / 255.0, torch.zeros(images.shape[1])).clamp(0.0, 1.0) * 255.0


@pytest.mark.parametrize("factor", [0.6, 0.9, 1.0, 1.4])
@pytest.mark.parametrize("kind", [color.BRIGHTNESS, color.CONTRAST, color.SATURATION])
def test_each_operation_equals_pillow_within_one_gray_level(photos: Tensor, kind: int, factor: float) -> None:
    ours = one_operation(photos, kind, factor)
    pictures = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in photos]
    theirs = np.stack([np.array(ENHANCERS[kind](picture).enhance(factor)) for picture in pictures])
    # Pillow truncates, so its values are up to one level lower. The rounded mean gray adds to the difference.
    difference = ours - torch.from_numpy(theirs).permute(0, 3, 1, 2)
    assert difference.min() > -0.5
    assert difference.max() < 1.5


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_operations_are_applied_in_the_drawn_order(order: tuple[int, int, int]) -> None:
    # Mid gray tones, so that no value is clamped.
    images = 100.0 + 50.0 * torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    factors = torch.tensor([[0.8, 1.3, 0.7], [1.2, 0.7, 1.3]])
    expected = images / 255.0
    luma = torch.tensor(color.LUMA).view(1, 3, 1, 1)
    for kind in order:
        factor = factors[:, kind].view(-1, 1, 1, 1)
        gray = (expected * luma).sum(dim=1, keepdim=True)
        toward = (torch.zeros(2, 1, 1, 1), gray.mean(dim=(1, 2, 3), keepdim=True), gray)[kind]
        expected = factor * expected + (1.0 - factor) * toward
    result = mapped(images, torch.tensor([[*order, 3]] * 2), factors, torch.zeros(2))
    torch.testing.assert_close(result, expected * 255.0)


def test_a_third_of_a_turn_exchanges_the_channels() -> None:
    colors = torch.rand(1, 3, 4, 4, generator=torch.Generator().manual_seed(0)) * 255.0
    turned = mapped(colors, torch.arange(4).unsqueeze(0), torch.ones(1, 3), torch.tensor([1.0 / 3.0]))
    torch.testing.assert_close(turned, colors[:, [2, 0, 1]])  # red becomes green, as in HSV


def test_hue_does_not_change_gray_colors() -> None:
    tones = torch.linspace(0.0, 255.0, 16).view(1, 1, 4, 4).expand(3, 3, 4, 4)
    turned = mapped(tones, torch.arange(4).expand(3, 4), torch.ones(3, 3), torch.tensor([-0.1, 0.05, 0.1]))
    torch.testing.assert_close(turned, tones.contiguous())


def test_jitter_and_gray_apply_to_the_chosen_images_only(drawn: Tensor) -> None:
    images = drawn[:4] / 255.0
    factors, turn = torch.tensor([[1.3, 0.7, 0.6]] * 4), torch.full((4,), 0.08)
    maps = color.jitter(
        torch.arange(4).expand(4, 4),
        factors,
        turn,
        applied=torch.tensor([False, True, False, True]),
        gray=torch.tensor([False, False, True, True]),
        channels=3,
    )
    result = maps.apply(images, torch.zeros(3))
    torch.testing.assert_close(result[0], images[0])
    assert (result[1] - images[1]).abs().mean() > 0.05
    luma = (images[2] * torch.tensor(color.LUMA).view(3, 1, 1)).sum(dim=0)
    torch.testing.assert_close(result[2], luma.expand(3, -1, -1))
    torch.testing.assert_close(result[3, 0], result[3, 1])
    torch.testing.assert_close(result[3, 0], result[3, 2])
    assert (result[3] - result[2]).abs().mean() > 0.01


def test_gray_pictures_only_change_in_brightness_and_contrast(drawn: Tensor) -> None:
    gray = drawn[:, :1].float()
    order = torch.arange(4).expand(len(gray), 4)
    no_effect = mapped(gray, order, torch.tensor([[1.0, 1.0, 0.6]]).expand(len(gray), 3), torch.full((len(gray),), 0.1))
    torch.testing.assert_close(no_effect, gray)
    darker = mapped(gray, order, torch.tensor([[0.7, 1.0, 1.0]]).expand(len(gray), 3), torch.zeros(len(gray)))
    torch.testing.assert_close(darker, 0.7 * gray)
