"""Every operation of strong views, compared with Pillow at magnitudes from its whole range."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from spice.augment import draws, tone
from spice.augment.operations import OPERATIONS, Operation

Picture = Image.Image
AFFINE = Image.Transform.AFFINE
PILLOW: dict[str, Callable[[Picture, float], Picture]] = {
    "identity": lambda picture, _: picture,
    "autocontrast": lambda picture, _: ImageOps.autocontrast(picture),
    "equalize": lambda picture, _: ImageOps.equalize(picture),
    "solarize": lambda picture, threshold: ImageOps.solarize(picture, math.ceil(threshold)),
    "posterize": lambda picture, bits: ImageOps.posterize(picture, int(bits)),
    "color": lambda picture, factor: ImageEnhance.Color(picture).enhance(factor),
    "contrast": lambda picture, factor: ImageEnhance.Contrast(picture).enhance(factor),
    "brightness": lambda picture, factor: ImageEnhance.Brightness(picture).enhance(factor),
    "sharpness": lambda picture, factor: ImageEnhance.Sharpness(picture).enhance(factor),
    "rotate": lambda picture, degrees: picture.rotate(degrees),
    "shear x": lambda picture, v: picture.transform(picture.size, AFFINE, (1, v, 0, 0, 1, 0)),
    "shear y": lambda picture, v: picture.transform(picture.size, AFFINE, (1, 0, 0, v, 1, 0)),
    "translate x": lambda picture, v: picture.transform(picture.size, AFFINE, (1, 0, v * picture.width, 0, 1, 0)),
    "translate y": lambda picture, v: picture.transform(picture.size, AFFINE, (1, 0, 0, 0, 1, v * picture.height)),
}
GEOMETRY = ("rotate", "shear x", "shear y", "translate x", "translate y")
SHARES = (0.0, 0.13, 0.37, 0.5, 0.77, 0.9999)  # of the range from the lowest to the highest magnitude


def in_pillow(name: str, images: Tensor, magnitude: float) -> Tensor:
    pictures = [Image.fromarray(image.permute(1, 2, 0).squeeze(2).numpy()) for image in images]
    results = [
        np.array(PILLOW[name](picture, magnitude)).reshape(picture.height, picture.width, -1) for picture in pictures
    ]
    return torch.from_numpy(np.stack(results)).permute(0, 3, 1, 2)


def named(name: str) -> Operation:
    return next(operation for operation in OPERATIONS if operation.name == name)


def test_there_are_the_fourteen_operations_of_the_authors() -> None:
    assert len(OPERATIONS) == 14
    assert {operation.name for operation in OPERATIONS} == set(PILLOW)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", sorted(set(PILLOW) - set(GEOMETRY)))
def test_tone_operations_equal_pillow_within_one_gray_level(photos: Tensor, name: str, share: float) -> None:
    operation = named(name)
    magnitude = operation.low + share * (operation.high - operation.low)
    ours = operation.apply(photos, torch.full((len(photos),), magnitude))
    difference = (ours.int() - in_pillow(name, photos, magnitude).int()).abs()
    assert difference.max() <= 1
    assert (difference > 0).float().mean() < 0.02  # nearly all pixels are equal


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", GEOMETRY)
def test_geometric_operations_equal_pillow_except_for_rounding_at_pixel_borders(
    photos: Tensor, name: str, share: float
) -> None:
    operation = named(name)
    magnitude = operation.low + share * (operation.high - operation.low)
    ours = operation.apply(photos, torch.full((len(photos),), magnitude))
    other = (ours != in_pillow(name, photos, magnitude)).any(dim=1).float().mean()
    assert other < 0.005


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_the_operation_for_one_picture_equals_that_for_a_batch(
    photos: Tensor, operation: Operation, share: float
) -> None:
    magnitude = operation.low + share * (operation.high - operation.low)
    picture = Image.fromarray(photos[5].permute(1, 2, 0).numpy())
    assert operation.apply_to_picture(picture, magnitude) == PILLOW[operation.name](picture, magnitude)


@pytest.mark.parametrize("name", sorted(PILLOW))
def test_gray_images_are_treated_as_pillow_treats_them(photos: Tensor, name: str) -> None:
    operation = named(name)
    magnitude = operation.low + 0.3 * (operation.high - operation.low)
    gray = photos[:, 1:2].contiguous()
    ours = operation.apply(gray, torch.full((len(gray),), magnitude))
    assert ours.shape == gray.shape
    close = (ours.int() - in_pillow(name, gray, magnitude).int()).abs() <= 1
    assert close.float().mean() > 0.995


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_each_image_gets_its_own_magnitude(photos: Tensor, operation: Operation) -> None:
    magnitudes = torch.linspace(operation.low, operation.high - 1e-3, len(photos))
    together = operation.apply(photos, magnitudes)
    alone = [operation.apply(photos[i : i + 1], magnitudes[i : i + 1]) for i in range(len(photos))]
    assert torch.equal(together, torch.cat(alone))


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_no_operation_changes_its_input(photos: Tensor, operation: Operation) -> None:
    before = photos.clone()
    operation.apply(photos, torch.full((len(photos),), operation.low + 0.3 * (operation.high - operation.low)))
    assert torch.equal(photos, before)


def test_short_lines_are_equalized_like_long_ones(drawn: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    together = tone.equalize(drawn)
    monkeypatch.setattr(tone, "SHORT_LINE", 0)
    assert torch.equal(tone.equalize(drawn), together)
    assert torch.equal(together, in_pillow("equalize", drawn, 0.0))


def test_solarize_inverts_at_or_above_the_threshold() -> None:
    images = torch.tensor([0, 99, 100, 101, 255], dtype=torch.uint8).view(1, 1, 1, 5).expand(4, 1, 1, 5)
    inverted = named("solarize").apply(images.contiguous(), torch.tensor([100.0, 0.0, 255.0, 256.0]))
    assert inverted[0].flatten().tolist() == [0, 99, 155, 154, 0]
    assert inverted[1].flatten().tolist() == [255, 156, 155, 154, 0]
    assert inverted[2].flatten().tolist() == [0, 99, 100, 101, 0]
    assert inverted[3].flatten().tolist() == [0, 99, 100, 101, 255]


def test_posterize_keeps_the_highest_bits() -> None:
    images = torch.full((6, 1, 1, 1), 0b10111111, dtype=torch.uint8)
    most = draws.between(
        4.0, 9.0, np.array([1.0 - 2.0**-24], dtype=np.float32)
    ).item()  # the largest number that is ever drawn
    kept = named("posterize").apply(images, torch.tensor([4.0, 5.9, 6.0, 7.5, 8.99, most]))
    assert kept.flatten().tolist() == [0b10110000, 0b10111000, 0b10111100, 0b10111110, 0b10111111, 0b10111111]
