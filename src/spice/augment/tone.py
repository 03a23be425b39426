"""The tone operations of strong views on 8-bit images, as Pillow's ImageOps and ImageEnhance define them.

Each takes uint8 (B, C, H, W) and its magnitude (B,), and returns new uint8 images.
"""

import torch
from torch import Tensor


def autocontrast(images: Tensor) -> Tensor:
    """Each channel stretched so that its darkest pixel is 0 and its brightest 255."""
    lowest = images.amin(dim=(2, 3), keepdim=True).float()
    highest = images.amax(dim=(2, 3), keepdim=True).float()
    flat = highest <= lowest
    scale = torch.where(flat, 1.0, 255.0 / (highest - lowest).clamp(min=1.0))
    offset = torch.where(flat, 0.0, -lowest * scale)
    # Pillow truncates; the small addend keeps products that are whole numbers from falling just below.
    return images.float().mul_(scale).add_(offset + 1e-3).clamp_(0.0, 255.0).to(torch.uint8)


def equalize(images: Tensor) -> Tensor:
    """Each channel through its own cumulative histogram."""
    batch, channels, height, width = images.shape
    lines = batch * channels
    first = torch.arange(0, 256 * lines, 256, device=images.device).unsqueeze(1)
    index = images.reshape(lines, -1).long().add_(first).view(-1)
    counts = torch.bincount(index, minlength=256 * lines).view(lines, 256)
    brightest = 255 - (counts > 0).int().flip(1).argmax(dim=1, keepdim=True)
    step = (height * width - counts.gather(1, brightest)) // 255  # (lines, 1)
    before = counts.cumsum(dim=1) - counts
    table = ((before + step // 2) // step.clamp(min=1)).clamp_(max=255)
    table = torch.where(step > 0, table, torch.arange(256, device=images.device))
    return table.to(torch.uint8).view(-1).index_select(0, index).view_as(images)


def posterize(images: Tensor, bits: Tensor) -> Tensor:
    """Only the highest `bits` bits of each value."""
    mask = 256 - 2 ** (8 - bits.long())
    return images & mask.to(torch.uint8).view(-1, 1, 1, 1)


def solarize(images: Tensor, threshold: Tensor) -> Tensor:
    """Values at or above `threshold` inverted."""
    # A byte xor 255 is its inverse. The highest threshold, 256, leaves all.
    ceiling = threshold.ceil().long().clamp(max=256)
    above = (images >= ceiling.clamp(max=255).to(torch.uint8).view(-1, 1, 1, 1)).to(torch.uint8)
    flips = torch.where(ceiling > 255, 0, 255).to(torch.uint8).view(-1, 1, 1, 1)
    return above.mul_(flips).bitwise_xor_(images)


def color(images: Tensor, factor: Tensor) -> Tensor:
    """Blend of the gray image (factor 0) and the image (factor 1)."""
    return images if images.shape[1] == 1 else _blend(_gray(images), images.float(), factor)


def contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Blend of the mean gray (factor 0) and the image (factor 1)."""
    mean = _gray(images).mean(dim=(1, 2, 3), keepdim=True).add_(0.5).floor_()
    return _blend(mean, images.float(), factor)


def brightness(images: Tensor, factor: Tensor) -> Tensor:
    """Blend of black (factor 0) and the image (factor 1)."""
    return images.float().mul_(factor.view(-1, 1, 1, 1)).to(torch.uint8)


def sharpness(images: Tensor, factor: Tensor) -> Tensor:
    """Blend of the smoothed image (factor 0) and the image (factor 1); the outermost pixels are not smoothed."""
    sharp = images.float()
    smooth = sharp.clone()
    across = sharp[..., :-2] + sharp[..., 1:-1] + sharp[..., 2:]
    box = across[..., :-2, :] + across[..., 1:-1, :] + across[..., 2:, :]
    box.add_(sharp[..., 1:-1, 1:-1], alpha=4.0)
    smooth[..., 1:-1, 1:-1] = box.mul_(1.0 / 13.0).add_(0.5).floor_()
    return _blend(smooth, sharp, factor)


def _gray(images: Tensor) -> Tensor:
    """Luma rounded to whole numbers, float (B, 1, H, W)."""
    if images.shape[1] == 1:
        return images.float()
    red, green, blue = images.float().split(1, dim=1)
    return (red * 0.299).add_(green, alpha=0.587).add_(blue, alpha=0.114).add_(0.5).floor_()


def _blend(degenerate: Tensor, images: Tensor, factor: Tensor) -> Tensor:
    """degenerate + factor (image - degenerate), truncated; changes `images`. No clamp: factors are in [0, 1]."""
    return images.sub_(degenerate).mul_(factor.view(-1, 1, 1, 1)).add_(degenerate).to(torch.uint8)
