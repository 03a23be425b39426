"""The fourteen operations of strong views, with the ranges of their magnitudes, which are drawn uniformly.

Each has two implementations with the same result: one for a batch of tensors on any device, and one in Pillow for a
single picture, which is faster for large images on a CPU. `recipes.Strong` chooses.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from PIL import Image, ImageEnhance, ImageOps
from PIL.Image import Image as Picture
from torch import Tensor

from spice.augment import tone
from spice.augment.geometry import affine, shifted


class Operation(NamedTuple):
    """An operation on 8-bit images (B, C, H, W) with magnitudes (B,) between `low` and `high`, and on one picture."""

    name: str
    apply: Callable[[Tensor, Tensor], Tensor]
    apply_to_picture: Callable[[Picture, float], Picture]
    low: float = 0.0
    high: float = 0.0
    tone: bool = False


def rotate(images: Tensor, degrees: Tensor) -> Tensor:
    """Rotate counterclockwise about the center."""
    height, width = images.shape[2:]
    angle = -torch.deg2rad(degrees)
    cos, sin = angle.cos(), angle.sin()
    x, y = width / 2.0, height / 2.0
    return affine(images, torch.stack([cos, sin, x - x * cos - y * sin, -sin, cos, y + x * sin - y * cos], dim=1))


def shear(images: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Move rows left by `x` times the distance from the top, columns up by `y` times the distance from the left."""
    one, zero = torch.ones_like(x), torch.zeros_like(x)
    return affine(images, torch.stack([one, x, zero, y, one, zero], dim=1))


def translate(images: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Move left and up by shares of the width and the height, rounded to whole pixels."""
    moves = torch.stack([y * images.shape[2], x * images.shape[3]], dim=1)
    return shifted(images, -(moves + 0.5).floor().long().cpu().numpy())


def _mapped(picture: Picture, *coefficients: float) -> Picture:
    return picture.transform(picture.size, Image.Transform.AFFINE, coefficients)


def _enhanced(enhancer: Callable[[Picture], Any]) -> Callable[[Picture, float], Picture]:
    return lambda picture, factor: enhancer(picture).enhance(factor)


# fmt: off
OPERATIONS = (
    Operation("identity", lambda images, _: images, lambda picture, _: picture),
    Operation("autocontrast", lambda images, _: tone.autocontrast(images),
              lambda picture, _: ImageOps.autocontrast(picture), tone=True),
    Operation("equalize", lambda images, _: tone.equalize(images),
              lambda picture, _: ImageOps.equalize(picture), tone=True),
    Operation("rotate", rotate, lambda picture, degrees: picture.rotate(degrees), -30.0, 30.0),
    Operation("solarize", tone.solarize,
              lambda picture, threshold: ImageOps.solarize(picture, math.ceil(threshold)), 0.0, 256.0, tone=True),
    Operation("color", tone.color, _enhanced(ImageEnhance.Color), 0.05, 0.95, tone=True),
    Operation("contrast", tone.contrast, _enhanced(ImageEnhance.Contrast), 0.05, 0.95, tone=True),
    Operation("brightness", tone.brightness, _enhanced(ImageEnhance.Brightness), 0.05, 0.95, tone=True),
    Operation("sharpness", tone.sharpness, _enhanced(ImageEnhance.Sharpness), 0.05, 0.95),
    Operation("shear x", lambda images, amount: shear(images, amount, 0 * amount),
              lambda picture, amount: _mapped(picture, 1, amount, 0, 0, 1, 0), -0.1, 0.1),
    Operation("shear y", lambda images, amount: shear(images, 0 * amount, amount),
              lambda picture, amount: _mapped(picture, 1, 0, 0, amount, 1, 0), -0.1, 0.1),
    Operation("translate x", lambda images, share: translate(images, share, 0 * share),
              lambda picture, share: _mapped(picture, 1, 0, share * picture.width, 0, 1, 0), -0.1, 0.1),
    Operation("translate y", lambda images, share: translate(images, 0 * share, share),
              lambda picture, share: _mapped(picture, 1, 0, 0, 0, 1, share * picture.height), -0.1, 0.1),
    Operation("posterize", tone.posterize,  # the fraction is dropped: 4 to 8 bits
              lambda picture, bits: ImageOps.posterize(picture, min(int(bits), 8)), 4.0, 9.0, tone=True),
)
# fmt: on
