"""The fourteen operations of strong views, with the ranges their magnitudes are drawn from (uniformly)."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from spice.augment import tone
from spice.augment.geometry import affine, shifted


class Operation(NamedTuple):
    """What is done to 8-bit images (B, C, H, W) at magnitudes (B,) between `low` and `high`."""

    name: str
    apply: Callable[[Tensor, Tensor], Tensor]
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
    y = torch.arange(images.shape[2], device=images.device) + 0.5
    return _moved(images, right=-_whole(amount.view(-1, 1) * y), side=images.shape[2])


def shear_y(images: Tensor, amount: Tensor) -> Tensor:
    """Each column moved up by `amount` times its distance from the left."""
    one, zero = torch.ones_like(amount), torch.zeros_like(amount)
    return affine(images, torch.stack([one, zero, zero, amount, one, zero], dim=1))


def translate_x(images: Tensor, share: Tensor) -> Tensor:
    """Moved left by a share of the width."""
    return _moved(images, right=-_whole(share.view(-1, 1) * images.shape[3]), side=images.shape[3])


def translate_y(images: Tensor, share: Tensor) -> Tensor:
    """Moved up by a share of the height."""
    return _moved(images, down=-_whole(share.view(-1, 1) * images.shape[2]), side=images.shape[2])


def _moved(images: Tensor, *, down: Tensor | None = None, right: Tensor | None = None, side: int) -> Tensor:
    none = torch.zeros(1, 1, dtype=torch.long, device=images.device)
    most = math.ceil(MOST_MOVED * side)
    return shifted(images, none if down is None else down, none if right is None else right, most=most)


def _whole(moves: Tensor) -> Tensor:
    """The nearest whole number of pixels."""
    return (moves + 0.5).floor().long()


MOST_MOVED = 0.1
OPERATIONS = (
    Operation("identity", lambda images, _: images),
    Operation("autocontrast", lambda images, _: tone.autocontrast(images), tone=True),
    Operation("equalize", lambda images, _: tone.equalize(images), tone=True),
    Operation("rotate", rotate, -30.0, 30.0),
    Operation("solarize", tone.solarize, 0.0, 256.0, tone=True),
    Operation("color", tone.color, 0.05, 0.95, tone=True),
    Operation("contrast", tone.contrast, 0.05, 0.95, tone=True),
    Operation("brightness", tone.brightness, 0.05, 0.95, tone=True),
    Operation("sharpness", tone.sharpness, 0.05, 0.95),
    Operation("shear x", shear_x, -MOST_MOVED, MOST_MOVED),
    Operation("shear y", shear_y, -MOST_MOVED, MOST_MOVED),
    Operation("translate x", translate_x, -MOST_MOVED, MOST_MOVED),
    Operation("translate y", translate_y, -MOST_MOVED, MOST_MOVED),
    Operation("posterize", tone.posterize, 4.0, 9.0, tone=True),  # the fraction is dropped: 4 to 8 bits
)
