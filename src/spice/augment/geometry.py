"""Where pixels go: crop, resize, flip and blur as two small matrices per image; shifts and affine maps as indices.

Shapes: B images, C channels, H x W pixels in, S x S pixels out.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.augment.draws import Boxes

# exp(-80) is 2e-35. A Gaussian's far tail below 1e-38 would be denormal, and denormals slow the products threefold.
LOWEST_EXPONENT = -80.0


def resample(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """rows @ image @ columns^T per image and channel: float (B, C, H, W), (B, S, H), (B, S, W) -> (B, C, S, S)."""
    batch, channels, height, width = images.shape
    size = rows.shape[1]
    wide = torch.bmm(images.reshape(batch, channels * height, width), columns.transpose(1, 2))
    return torch.matmul(rows.unsqueeze(1), wide.view(batch, channels, height, size))


def resize_matrix(start: Tensor, length: Tensor, *, pixels: int, size: int) -> Tensor:
    """Weights that resize pixels [start, start + length) to `size`, (B, size, pixels).

    A triangle filter, widened when the picture shrinks (antialiasing), that sees nothing outside the box: Pillow's
    crop followed by its bilinear resize.
    """
    start, length = start.float().view(-1, 1, 1), length.float().view(-1, 1, 1)
    device = start.device
    scale = length / size
    center = start + (torch.arange(size, device=device).view(1, -1, 1) + 0.5) * scale  # (B, S, 1)
    pixel = torch.arange(pixels, device=device).view(1, 1, -1) + 0.5  # (1, 1, P)
    weights = (pixel - center).abs_().div_(scale.clamp(min=1.0)).neg_().add_(1.0).clamp_(min=0.0)  # (B, S, P)
    weights *= (pixel > start) & (pixel < start + length)
    return weights.div_(weights.sum(dim=2, keepdim=True))


def blur_matrix(sigma: Tensor, *, size: int) -> Tensor:
    """A Gaussian's weights between the `size` pixels of a line, (B, size, size); at the borders, of what is there."""
    position = torch.arange(size, device=sigma.device, dtype=torch.float32)
    squared = (position.unsqueeze(1) - position).square()  # (S, S)
    weights = (squared / (-2.0 * sigma.square()).view(-1, 1, 1)).clamp_(min=LOWEST_EXPONENT).exp_()
    return weights.div_(weights.sum(dim=2, keepdim=True))


def view_matrices(
    boxes: Boxes, flip: Tensor, sigma: Tensor, *, height: int, width: int, size: int
) -> tuple[Tensor, Tensor]:
    """Crop, resize, blur (where sigma > 0) and mirror (where `flip`) as matrices for `resample`."""
    rows = resize_matrix(boxes.top, boxes.height, pixels=height, size=size)  # (B, S, H)
    columns = resize_matrix(boxes.left, boxes.width, pixels=width, size=size)  # (B, S, W)
    blurred = sigma.nonzero()[:, 0]
    if len(blurred):
        blur = blur_matrix(sigma[blurred], size=size)
        rows[blurred] = torch.bmm(blur, rows[blurred])
        columns[blurred] = torch.bmm(blur, columns[blurred])
    mirrored = flip.nonzero()[:, 0]
    columns[mirrored] = columns[mirrored].flip(1)
    return rows, columns


def fitted(images: Tensor, size: int) -> Tensor:
    """The central square at `size` pixels a side, uint8 in and out; the images themselves if they are that already."""
    height, width = images.shape[2:]
    if height == width == size:
        return images
    side = min(height, width)
    length = torch.tensor([side], device=images.device)
    rows = resize_matrix((torch.tensor([height - side], device=images.device)) // 2, length, pixels=height, size=size)
    columns = resize_matrix((torch.tensor([width - side], device=images.device)) // 2, length, pixels=width, size=size)
    count = len(images)
    resized = resample(images.float(), rows.expand(count, -1, -1), columns.expand(count, -1, -1))
    return resized.add_(0.5).clamp_(0.0, 255.0).to(torch.uint8)


def shifted(images: Tensor, down: Tensor, right: Tensor, *, most: int) -> Tensor:
    """Images moved by whole pixels of at most `most` either way; what comes in is black."""
    height, width = images.shape[2:]
    padded = F.pad(images, (most, most, most, most))
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)  # (B, C, 2 most + 1, 2 most + 1, H, W)
    every = torch.arange(len(images), device=images.device)
    return windows[every, :, most - down, most - right]


def mirrored(images: Tensor, flip: Tensor) -> Tensor:
    """Left and right exchanged where `flip`."""
    images = images.clone()
    chosen = flip.nonzero()[:, 0]
    images[chosen] = images[chosen].flip(3)
    return images


def affine(images: Tensor, maps: Tensor) -> Tensor:
    """Each output pixel takes the input pixel its center is mapped to, and is black where that lies outside.

    `maps` (B, 6) holds (a, b, c, d, e, f): x_in = a x + b y + c, y_in = d x + e y + f, as in Pillow's
    `transform(AFFINE, NEAREST)`, the default there and what RandAugment was trained with.
    """
    batch, channels, height, width = images.shape
    a, b, c, d, e, f = maps.to(torch.float32).view(batch, 6, 1, 1).unbind(dim=1)
    x = torch.arange(width, device=images.device).view(1, 1, -1) + 0.5
    y = torch.arange(height, device=images.device).view(1, -1, 1) + 0.5
    x_in = (a * x + (b * y + c)).floor_()  # (B, H, W)
    y_in = (d * x + (e * y + f)).floor_()
    inside = (x_in >= 0) & (x_in < width) & (y_in >= 0) & (y_in < height)
    source = y_in.clamp_(0, height - 1).mul_(width).add_(x_in.clamp_(0, width - 1)).long()
    moved = images.reshape(batch, channels, -1).gather(2, source.view(batch, 1, -1).expand(-1, channels, -1))
    return moved.view_as(images).mul_(inside.unsqueeze(1))
