"""The fourteen operations of strong views, with the ranges their magnitudes are drawn from (uniformly).

Each has two implementations with the same result: for a batch of tensors on any device, and for one picture in Pillow,
which is faster for large images on a CPU. `recipes.Strong` chooses.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from PIL import Image, ImageEnhance, ImageOps
from PIL.Image import Image as Picture
from torch import Tensor

from spice.augment import tone
from spice.augment.draws import Integers
from spice.augment.geometry import affine, shifted


class Operation(NamedTuple):
    """An operation on 8-bit images (B, C, H, W) with magnitudes (B,) between `low` and `high`, and on one picture."""

    name: str
    apply: Callable[[Tensor, Tensor], Tensor]
    alone: Callable[[Picture, float], Picture]
    low: float = 0.0
    high: float = 0.0
    tone: bool = False


def rotate(images: Tensor, degrees: Tensor) -> Tensor:
    """Turned counterclockwise about the center."""
    height, width = images.shape[2:]
    angle = -torch.deg2rad(degrees)
    cos, sin = angle.cos(), angle.sin()
    x, y = width / 2.0, height / 2.0
    return affine(images, torch.stack([cos, sin, x - x * cos - y * sin, -sin, cos, y + x * sin - y * cos], dim=1))


def shear_x(images: Tensor, amount: Tensor) -> Tensor:
    """Each row moved left by `amount` times its distance from the top."""
    one, zero = torch.ones_like(amount), torch.zeros_like(amount)
    return affine(images, torch.stack([one, amount, zero, zero, one, zero], dim=1))


def shear_y(images: Tensor, amount: Tensor) -> Tensor:
    """Each column moved up by `amount` times its distance from the left."""
    one, zero = torch.ones_like(amount), torch.zeros_like(amount)
    return affine(images, torch.stack([one, zero, zero, amount, one, zero], dim=1))


def translate_x(images: Tensor, share: Tensor) -> Tensor:
    """Moved left by a share of the width."""
    return shifted(images, _whole(torch.stack([torch.zeros_like(share), share * images.shape[3]], dim=1)))


def translate_y(images: Tensor, share: Tensor) -> Tensor:
    """Moved up by a share of the height."""
    return shifted(images, _whole(torch.stack([share * images.shape[2], torch.zeros_like(share)], dim=1)))


def _whole(moves: Tensor) -> Integers:
    """Moves up and left as whole pixels down and right."""
    whole: Integers = -(moves + 0.5).floor().long().cpu().numpy()
    return whole


def _mapped(picture: Picture, *, b: float = 0.0, c: float = 0.0, d: float = 0.0, f: float = 0.0) -> Picture:
    return picture.transform(picture.size, Image.Transform.AFFINE, (1.0, b, c, d, 1.0, f))


def _enhanced(
    enhancer: Callable[
        [Picture], ImageEnhance.Color | ImageEnhance.Contrast | ImageEnhance.Brightness | ImageEnhance.Sharpness
    ],
) -> Callable[[Picture, float], Picture]:
    return lambda picture, factor: enhancer(picture).enhance(factor)


OPERATIONS = (
    Operation("identity", lambda images, _: images, lambda picture, _: picture),
    Operation(
        "autocontrast",
        lambda images, _: tone.autocontrast(images),
        lambda picture, _: ImageOps.autocontrast(picture),
        tone=True,
    ),
    Operation(
        "equalize", lambda images, _: tone.equalize(images), lambda picture, _: ImageOps.equalize(picture), tone=True
    ),
    Operation("rotate", rotate, lambda picture, degrees: picture.rotate(degrees), -30.0, 30.0),
    Operation(
        "solarize",
        tone.solarize,
        lambda picture, threshold: ImageOps.solarize(picture, math.ceil(threshold)),
        0.0,
        256.0,
        tone=True,
    ),
    Operation("color", tone.color, _enhanced(ImageEnhance.Color), 0.05, 0.95, tone=True),
    Operation("contrast", tone.contrast, _enhanced(ImageEnhance.Contrast), 0.05, 0.95, tone=True),
    Operation("brightness", tone.brightness, _enhanced(ImageEnhance.Brightness), 0.05, 0.95, tone=True),
    Operation("sharpness", tone.sharpness, _enhanced(ImageEnhance.Sharpness), 0.05, 0.95),
    Operation("shear x", shear_x, lambda picture, amount: _mapped(picture, b=amount), -0.1, 0.1),
    Operation("shear y", shear_y, lambda picture, amount: _mapped(picture, d=amount), -0.1, 0.1),
    Operation("translate x", translate_x, lambda picture, share: _mapped(picture, c=share * picture.width), -0.1, 0.1),
    Operation("translate y", translate_y, lambda picture, share: _mapped(picture, f=share * picture.height), -0.1, 0.1),
    Operation(  # the fraction is dropped: 4 to 8 bits
        "posterize",
        tone.posterize,
        lambda picture, bits: ImageOps.posterize(picture, min(int(bits), 8)),
        4.0,
        9.0,
        tone=True,
    ),
)
