"""Color jitter of contrastive views: brightness, contrast, saturation, hue and gray as one affine map per image.

The operations of ColorJitter in each image's own order, with two liberties that make them one product per pixel:
values are clamped once, at the end, and hue turns about the gray axis of RGB, not in HSV. docs/benchmarks.md gives
the measured difference.

Shapes: B images, C channels (3, or 1 for gray pictures, which have neither saturation nor hue).
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

LUMA = (0.299, 0.587, 0.114)
BRIGHTNESS, CONTRAST, SATURATION, HUE, NOTHING = range(5)


class ColorMaps(NamedTuple):
    """color -> product @ color + of_mean @ (the image's mean color), each (B, C, C)."""

    product: Tensor
    of_mean: Tensor

    def apply(self, images: Tensor, offset: Tensor) -> Tensor:
        """The map, plus an `offset` (C,), on float images (B, C, H, W)."""
        batch, channels, height, width = images.shape
        colors = images.view(batch, channels, height * width)
        constant = torch.baddbmm(offset.view(-1, 1), self.of_mean, colors.mean(dim=2, keepdim=True))  # (B, C, 1)
        return torch.baddbmm(constant, self.product, colors).view_as(images)


def jitter(order: Tensor, factors: Tensor, turn: Tensor, *, applied: Tensor, gray: Tensor, channels: int) -> ColorMaps:
    """Brightness, contrast and saturation by `factors` (B, 3) and hue by `turn` (B,) of a circle, in `order` (B, 4).

    None of the four where not `applied`; colors are gray in the end where `gray`.
    """
    identity = torch.eye(channels)
    to_gray = torch.tensor(LUMA if channels == 3 else (1.0,)).expand(channels, channels)  # every row the luma
    hue = hue_matrices(turn) if channels == 3 else identity.expand(len(turn), 1, 1)
    product, of_mean = identity.expand(len(order), -1, -1), torch.zeros(len(order), channels, channels)
    factors = torch.cat([factors, torch.ones(len(factors), 1)], dim=1)  # hue scales nothing
    for drawn in order.unbind(dim=1):
        kind = torch.where(applied, drawn, NOTHING).view(-1, 1, 1)
        factor = torch.where(kind == NOTHING, 1.0, factors.gather(1, drawn.unsqueeze(1)).unsqueeze(2))  # (B, 1, 1)
        step = factor * identity + torch.where(kind == SATURATION, 1.0 - factor, 0.0) * to_gray
        step = torch.where(kind == HUE, hue, step)
        # Contrast turns about the mean gray of the image as it is by now.
        about = torch.where(kind == CONTRAST, 1.0 - factor, 0.0) * (to_gray @ (product + of_mean))
        product, of_mean = step @ product, step @ of_mean + about
    gray = gray.view(-1, 1, 1)
    return ColorMaps(torch.where(gray, to_gray @ product, product), torch.where(gray, to_gray @ of_mean, of_mean))


def hue_matrices(turn: Tensor) -> Tensor:
    """Rotation by `turn` of a circle about the gray axis (1, 1, 1), from red towards green, (B, 3, 3)."""
    angle = (2.0 * math.pi * turn).view(-1, 1, 1)
    third = torch.full((3, 3), 1.0 / 3.0)
    across = torch.tensor([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]]) / math.sqrt(3.0)
    return third + angle.cos() * (torch.eye(3) - third) + angle.sin() * across
