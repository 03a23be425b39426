"""Color jitter of contrastive views: brightness, contrast, saturation, hue and gray as one affine map per image.

The operations of ColorJitter, in a random order for each image. Two simplifications make them one matrix product:
values are clamped only once, at the end, and hue rotates about the gray axis of RGB, not in HSV. docs/lab-notes has the
measured difference.

Shapes: B images, C channels (3, or 1 for gray pictures, which have neither saturation nor hue).
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

LUMA = (0.299, 0.587, 0.114)
BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)


class ColorMaps(NamedTuple):
    """color -> product @ color + of_mean @ (the image's mean color), each (B, C, C)."""

    product: Tensor
    of_mean: Tensor

    def apply(self, images: Tensor, offset: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The map, plus an `offset` (C,), on float images (B, C, H, W)."""
        colors = images.flatten(2)
        constant = torch.baddbmm(offset.view(-1, 1), self.of_mean, colors.mean(dim=2, keepdim=True))  # (B, C, 1)
        mapped = torch.baddbmm(constant, self.product, colors, out=None if out is None else out.flatten(2))
        return mapped.view_as(images)


def jitter(order: Tensor, factors: Tensor, turn: Tensor, *, applied: Tensor, gray: Tensor, channels: int) -> ColorMaps:
    """Brightness, contrast and saturation by `factors` (B, 3), hue by `turn` (B,) of a circle, in `order` (B, 4).

    These four apply only to images with `applied` (B,). Images with `gray` (B,) become gray at the end.
    """
    batch = len(order)
    identity = torch.eye(channels)
    to_gray = torch.tensor(LUMA if channels == 3 else (1.0,)).expand(channels, channels)  # every row the luma
    toward_gray = (1.0 - factors).view(batch, 3, 1, 1) * to_gray
    product = torch.cat([factors, torch.ones(batch, 1)], dim=1).view(batch, 4, 1, 1) * identity  # (B, kinds, C, C)
    product[:, SATURATION] += toward_gray[:, SATURATION]
    if channels == 3:
        product[:, HUE] = hue_matrices(turn)
    of_mean = torch.zeros_like(product)
    of_mean[:, CONTRAST] = toward_gray[:, CONTRAST]
    # Each operation maps a color and the mean color together, so that several operations are one product.
    both = torch.cat([torch.cat([product, of_mean], dim=3), F.pad(product + of_mean, (channels, 0))], dim=2)
    chosen = (order + 4 * torch.arange(batch).unsqueeze(1)).flatten()
    first, second, third, fourth = both.flatten(0, 1).index_select(0, chosen).view_as(both).unbind(dim=1)
    whole = (fourth @ third @ second @ first)[:, :channels]  # (B, C, 2C)
    whole = torch.where(applied.view(-1, 1, 1), whole, torch.eye(channels, 2 * channels))
    whole = torch.where(gray.view(-1, 1, 1), to_gray @ whole, whole)
    return ColorMaps(whole[:, :, :channels], whole[:, :, channels:])


def hue_matrices(turn: Tensor) -> Tensor:
    """Rotation by `turn` of a circle about the gray axis (1, 1, 1), from red towards green, (B, 3, 3)."""
    angle = (2.0 * math.pi * turn).view(-1, 1, 1)
    third = torch.full((3, 3), 1.0 / 3.0)
    across = torch.tensor([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]]) / math.sqrt(3.0)
    return third + angle.cos() * (torch.eye(3) - third) + angle.sin() * across
