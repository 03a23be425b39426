"""Where pixels go: crop, resize, flip and blur as two small matrices per image; shifts and affine maps as indices.

Shapes: B images, C channels, H x W pixels in, S x S pixels out.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

# A Gaussian's far tail is held at exp(-30), 1e-13 of its peak: products of smaller ones fall below 1e-38, where floats
# are denormal and a CPU slows down threefold.
LOWEST_EXPONENT = -30.0


def resample(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """rows @ image @ columns^T per image and channel: float (B, C, H, W), (B, S, H), (B, S, W) -> (B, C, S, S)."""
    batch, channels, height, width = images.shape
    size = rows.shape[1]
    wide = torch.bmm(images.reshape(batch, channels * height, width), columns.transpose(1, 2))
    return torch.matmul(rows.unsqueeze(1), wide.view(batch, channels, height, size))


def resize_matrix(start: Tensor, length: Tensor, *, pixels: int, size: int, flip: Tensor | None = None) -> Tensor:
    """Weights that resize pixels [start, start + length) to `size`, back to front where `flip`, (B, size, pixels).

    A triangle filter, widened when the picture shrinks (antialiasing), that sees nothing outside the box: Pillow's
    crop followed by its bilinear resize.
    """
    start, length = start.float().view(-1, 1, 1), length.float().view(-1, 1, 1)
    device = start.device
    scale = length / size
    place = torch.arange(size, device=device).view(1, -1, 1) + 0.5  # (1, S, 1)
    if flip is not None:
        place = torch.where(flip.view(-1, 1, 1), size - place, place)
    pixel = torch.arange(pixels, device=device).view(1, 1, -1) + 0.5  # (1, 1, P)
    reach = scale.clamp(min=1.0)
    weights = 1.0 - (pixel / reach - (start + place * scale) / reach).abs_()  # (B, S, P)
    weights.clamp_(min=0.0).mul_(((pixel > start) & (pixel < start + length)).float())
    return weights.div_(weights.sum(dim=2, keepdim=True))


def blur_matrix(sigma: Tensor, *, size: int) -> Tensor:
    """A Gaussian's weights between the `size` pixels of a line, (B, size, size); at the borders, of what is there."""
    position = torch.arange(size, device=sigma.device, dtype=torch.float32)
    squared = (position.unsqueeze(1) - position).square()  # (S, S)
    weights = (squared / (-2.0 * sigma.square()).view(-1, 1, 1)).clamp_(min=LOWEST_EXPONENT).exp_()
    return weights.div_(weights.sum(dim=2, keepdim=True))


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
    """Each row moved by whole pixels, (B, H) or (B, 1), at most `most` either way; what comes in is black."""
    return ShiftRoom(images, count=len(images), most=most, mirror=False).shifted(images, down, right)


class ShiftRoom:
    """Room for `count` images like the given ones, each in a black frame `most` pixels wide, and for mirror images.

    In it every row of an image, moved by up to `most` pixels, is a run of bytes. Runs are copied ten times as fast as
    single pixels are gathered.
    """

    def __init__(self, images: Tensor, *, count: int, most: int, mirror: bool) -> None:
        channels, height, width = images.shape[1:]
        line, plane = width + 2 * most, (width + 2 * most) * (height + 2 * most)
        room = images.new_zeros(1 + mirror, count, channels, height + 2 * most, line)
        self._inside = room[:, :, :, most : most + height, most : most + width]
        # Every run of `width` bytes, as overlapping rows.
        self._runs = room.view(-1).as_strided((room.numel() - width + 1, width), (1, 1))
        planes = torch.arange(0, count * channels * plane, plane, device=images.device).view(count, channels, 1)
        lines = torch.arange(most * line + most, (most + height) * line, line, device=images.device)  # (H,)
        self._starts = planes + lines  # (count, C, H) where each row begins in the room
        self._line, self._mirror_images = line, count * channels * plane

    def shifted(self, images: Tensor, down: Tensor, right: Tensor, *, flip: Tensor | None = None) -> Tensor:
        """Each row moved by whole pixels, (B, H) or (B, 1); images mirrored first where `flip` (B, 1)."""
        batch = len(images)
        self._inside[0, :batch] = images
        moves = down * self._line + right
        if flip is not None:
            self._inside[1, :batch] = images.flip(3)
            moves = moves - flip * self._mirror_images
        starts = self._starts[:batch] - moves.unsqueeze(1)  # (B, C, H)
        return self._runs.index_select(0, starts.view(-1)).view_as(images)


def mirrored(images: Tensor, flip: Tensor) -> Tensor:
    """Left and right exchanged where `flip`."""
    both = torch.cat([images, images.flip(3)])
    return both.index_select(0, torch.arange(len(images), device=images.device) + len(images) * flip)


def affine(images: Tensor, maps: Tensor) -> Tensor:
    """Each output pixel takes the input pixel its center is mapped to, and is black where that lies outside.

    `maps` (B, 6) holds (a, b, c, d, e, f): x_in = a x + b y + c, y_in = d x + e y + f, as in Pillow's
    `transform(AFFINE, NEAREST)`, the default there and what RandAugment was trained with.
    """
    batch, channels, height, width = images.shape
    a, b, c, d, e, f = maps.view(batch, 6, 1, 1).unbind(dim=1)
    x = torch.arange(width, device=images.device).view(1, 1, -1) + 0.5
    y = torch.arange(height, device=images.device).view(1, -1, 1) + 0.5
    # Coordinates outside fall on a black frame one pixel wide: cheaper than a mask.
    x_in = (a * x + (b * y + (c + 1.0))).floor_().clamp_(0.0, width + 1.0)  # (B, H, W)
    y_in = (d * x + (e * y + (f + 1.0))).floor_().clamp_(0.0, height + 1.0)
    source = y_in.mul_(width + 2).add_(x_in).long().view(batch, 1, -1)
    framed = F.pad(images, (1, 1, 1, 1)).view(batch, channels, -1)
    return framed.gather(2, source.expand(-1, channels, -1)).view_as(images)
