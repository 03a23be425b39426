"""Geometry: crop, resize, flip and blur as two small matrices per image, shifts, and affine maps.

Shapes: B images, C channels, H x W pixels in, S x S pixels out.
"""

import math
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from spice.augment.draws import Booleans, Floats, Integers

# The tail of a Gaussian is clamped at exp(-30), 1e-13 of its peak. Products of smaller values are denormal floats, with
# which a CPU is three times slower.
LOWEST_EXPONENT = -30.0


def resample(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """rows @ image @ columns^T per image and channel: float (B, C, H, W), (B, S, H), (B, S, W) -> (B, C, S, S)."""
    batch, channels, height, width = images.shape
    size = rows.shape[1]
    wide = torch.bmm(images.reshape(batch, channels * height, width), columns.transpose(1, 2))
    # The rows are copied for every channel, because broadcasting in the product is many times slower.
    rows = rows.unsqueeze(1).expand(-1, channels, -1, -1).reshape(batch * channels, size, height)
    return torch.bmm(rows, wide.view(batch * channels, height, size)).view(batch, channels, size, size)


def resize_matrix(
    start: Floats,
    length: Floats,
    *,
    pixels: int,
    size: int,
    flip: Booleans | None = None,
    device: torch.device | None = None,
) -> Tensor:
    """Weights that resize pixels [start, start + length) to `size`, reversed where `flip`: (B, size, pixels).

    A triangle filter, widened for downsampling (antialiasing), that ignores pixels outside the box: the same as crop
    and bilinear resize in Pillow.
    """
    first, last = start.reshape(-1, 1, 1), (start + length - 1.0).reshape(-1, 1, 1)
    scale = (length / np.float32(size)).reshape(-1, 1, 1)
    place = np.arange(size, dtype=np.float32).reshape(1, -1, 1) + 0.5  # (1, S, 1)
    if flip is not None:
        place = np.where(flip.reshape(-1, 1, 1), size - place, place)
    center, reach = first + place * scale, np.maximum(scale, 1.0)
    # Only the few pixels within reach of a center have weights, (B, S, taps), which are scattered to their positions.
    taps = np.arange(1, math.ceil(2.0 * reach.max()) + 1, dtype=np.float32)
    pixel = np.floor(center - reach - 0.5) + taps
    weights = np.maximum(1.0 - np.abs(pixel + 0.5 - center) / reach, 0.0) * ((pixel >= first) & (pixel <= last))
    weights /= weights.sum(axis=2, keepdims=True)
    inside = np.clip(pixel, 0, pixels - 1).astype(np.int64)  # pixels outside have weight 0
    matrix = torch.zeros(len(start), size, pixels, device=device)
    return matrix.scatter_add_(2, torch.from_numpy(inside).to(device), torch.from_numpy(weights).to(device))


def blur_matrix(sigma: Floats, *, size: int, device: torch.device | None = None) -> Tensor:
    """Gaussian weights between the `size` pixels of a line, normalized at the borders too: (B, size, size)."""
    exponent = np.square(np.arange(size, dtype=np.float32)) / (-2.0 * np.square(sigma)).reshape(-1, 1)
    weight = np.exp(np.maximum(exponent, LOWEST_EXPONENT))  # (B, S) at each distance
    within = weight.cumsum(axis=1)
    total = within + within[:, ::-1] - weight[:, :1]  # (B, S) sum of a pixel's weights on both sides
    line = torch.from_numpy(np.concatenate([weight[:, :0:-1], weight], axis=1)).to(device)  # (B, 2 S - 1)
    # Every row of the matrix is a window of the same line.
    return line.unfold(1, size, 1).flip(1).div_(torch.from_numpy(total).to(device).unsqueeze(2))


def central_square(images: Tensor, size: int) -> Tensor:
    """The central square, resized to `size`, uint8 in and out; the images themselves if they have that size."""
    height, width = images.shape[2:]
    if height == width == size:
        return images
    side = min(height, width)

    def matrix(pixels: int) -> Tensor:
        start, length = np.array([[(pixels - side) // 2], [side]], dtype=np.float32)
        one = resize_matrix(start, length, pixels=pixels, size=size, device=images.device)
        return one.expand(len(images), -1, -1)

    return resample(images.float(), matrix(height), matrix(width)).add_(0.5).clamp_(0.0, 255.0).to(torch.uint8)


def mirrored(images: Tensor, flip: Booleans) -> Tensor:
    """The images, mirrored left to right where `flip`."""
    both = torch.cat([images, images.flip(3)])
    chosen = torch.from_numpy(np.arange(len(images)) + len(images) * flip)
    return both.index_select(0, chosen.to(images.device))


def shifted(images: Tensor, moves: Integers, *, flip: Booleans | None = None, out: Tensor | None = None) -> Tensor:
    """The images, mirrored where `flip`, then moved down and right by whole pixels, `moves` (B, 2); the rest is black.

    On a CPU the result is written to `out`, if given: reused memory is faster than new memory.
    """
    flip = np.zeros(len(images), dtype=np.bool_) if flip is None else flip
    if images.device.type != "cpu":
        return affine(images, shift_maps(moves, flip, width=images.shape[3]).to(images.device))
    height, width = images.shape[2:]
    originals = images.numpy()
    mirrors = images.flip(3).numpy() if flip.any() else originals
    moved = torch.zeros_like(images) if out is None else out.zero_()
    steps = zip(originals, mirrors, moved.numpy(), moves.tolist(), flip.tolist(), strict=True)
    for image, mirror, result, (down, right), flipped in steps:
        (to_rows, from_rows), (to_columns, from_columns) = _spans(height, down), _spans(width, right)
        result[:, to_rows, to_columns] = (mirror if flipped else image)[:, from_rows, from_columns]
    return moved


def shifted_with_reflection(images: Tensor, moves: Integers, *, flip: Booleans) -> Tensor:
    """As `shifted`, but the rest is filled by reflection, without repeating the pixels at the border."""
    height, width = images.shape[2:]
    down, right = moves[:, :1], moves[:, 1:]
    rows = _reflected(np.arange(height) - down, height)  # (B, H) the source of each row
    columns = _reflected(np.arange(width) - right, width)  # (B, W)
    columns = np.where(flip[:, None], width - 1 - columns, columns)
    source = torch.from_numpy(rows[:, :, None] * width + columns[:, None, :]).to(images.device)  # (B, H, W)
    source = source.view(len(images), 1, -1).expand(-1, images.shape[1], -1)  # (B, C, H * W)
    return images.flatten(start_dim=2).gather(2, source).view_as(images)


def _reflected(places: Integers, pixels: int) -> Integers:
    """Positions on a line that is reflected at its first and last pixel: 3 2 1 | 0 1 2 3 | 2 1 0."""
    period = max(1, 2 * (pixels - 1))
    places = places % period
    return np.minimum(places, period - places) if pixels > 1 else np.zeros_like(places)


@lru_cache(4096)
def _spans(pixels: int, move: int) -> tuple[slice, slice]:
    """The target and the source of the pixels of a line that is moved."""
    return slice(max(move, 0), pixels + min(move, 0)), slice(max(-move, 0), pixels + min(-move, 0))


def shift_maps(moves: Integers, flip: Booleans, *, width: int) -> Tensor:
    """The affine maps (B, 6) that are equivalent to `shifted`."""
    down, right = moves.T.astype(np.float32)
    none, one = np.zeros_like(down), np.ones_like(down)
    across = (np.where(flip, -one, one), none, np.where(flip, width + right, -right))
    return torch.from_numpy(np.stack([*across, none, one, -down], axis=1))


def affine(images: Tensor, maps: Tensor) -> Tensor:
    """Each output pixel gets the input pixel that its center maps to, or black outside the image.

    A row (a, b, c, d, e, f) of `maps` (B, 6) is x_in = a x + b y + c, y_in = d x + e y + f. This is
    `transform(AFFINE, NEAREST)` in Pillow, which RandAugment uses by default.
    """
    batch, channels, height, width = images.shape
    a, b, c, d, e, f = maps.view(batch, 6, 1, 1).unbind(dim=1)
    x = torch.arange(width, device=images.device).view(1, 1, -1) + 0.5
    y = torch.arange(height, device=images.device).view(1, -1, 1) + 0.5
    # Coordinates outside are clamped to a black frame one pixel wide, which is cheaper than a mask.
    x_in = (a * x + (b * y + (c + 1.0))).floor_().clamp_(0.0, width + 1.0)  # (B, H, W)
    y_in = (d * x + (e * y + (f + 1.0))).floor_().clamp_(0.0, height + 1.0)
    source = y_in.mul_(width + 2).add_(x_in).long().view(batch, 1, -1)
    framed = F.pad(images, (1, 1, 1, 1)).view(batch, channels, -1)
    return framed.gather(2, source.expand(-1, channels, -1)).view_as(images)
