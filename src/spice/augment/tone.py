"""The tone operations of strong views on 8-bit images, as Pillow's ImageOps and ImageEnhance define them.

Each takes uint8 (B, C, H, W) and its magnitude (B,), and returns new uint8 images.
"""

import torch
from torch import Tensor

# Pillow truncates. This addend keeps whole numbers from being truncated to the number below.
TRUNCATION = 1e-3
# Histograms of lines with up to this many pixels are faster together than one by one.
SHORT_LINE = 48 * 48


def autocontrast(images: Tensor) -> Tensor:
    """Stretch each channel so that its darkest pixel is 0 and its brightest 255."""
    lowest = images.amin(dim=(2, 3), keepdim=True).float()
    highest = images.amax(dim=(2, 3), keepdim=True).float()
    flat = highest <= lowest
    scale = torch.where(flat, 1.0, 255.0 / (highest - lowest).clamp(min=1.0))
    offset = torch.where(flat, 0.0, -lowest * scale)
    return _bytes(images.float().mul_(scale).add_(offset + TRUNCATION).clamp_(0.0, 255.0))


def equalize(images: Tensor) -> Tensor:
    """Equalize the histogram of each channel."""
    lines = images.flatten(2).flatten(0, 1)  # a line per image and channel
    counts = _histograms(lines)  # (lines, 256)
    brightest = 255 - (counts > 0).int().flip(1).argmax(dim=1, keepdim=True)
    step = (lines.shape[1] - counts.gather(1, brightest)) // 255  # (lines, 1)
    before = counts.cumsum(dim=1) - counts
    table = ((before + step // 2) // step.clamp(min=1)).clamp_(max=255)
    table = torch.where(step > 0, table, torch.arange(256, device=images.device))
    return _looked_up(lines, table.to(torch.uint8)).view_as(images)


def posterize(images: Tensor, bits: Tensor) -> Tensor:
    """Keep only the highest `bits` bits of each value."""
    mask = 256 - 2 ** (8 - bits.long().clamp(max=8))  # a draw just below 9 may round up to 9
    return images & mask.to(torch.uint8).view(-1, 1, 1, 1)


def solarize(images: Tensor, threshold: Tensor) -> Tensor:
    """Invert values at or above `threshold`."""
    # Computed in bytes, because comparison and torch.where are many times slower on a CPU.
    threshold = threshold.ceil().long().view(-1, 1, 1, 1)
    lowest = threshold.clamp(max=255).to(torch.uint8)
    keep = (lowest - images.minimum(lowest)).clamp_(max=1).mul_(255)  # 255 below the threshold, else 0
    inverts = torch.where(threshold > 255, 0, 255).to(torch.uint8)
    return keep.bitwise_xor_(255).bitwise_and_(inverts).bitwise_xor_(images)


def color(images: Tensor, factor: Tensor) -> Tensor:
    """Blend the gray image (factor 0) with the image (factor 1)."""
    if images.shape[1] == 1:
        return images
    values = images.float()
    return _blend(_gray(values), values, factor)


def contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Blend the mean gray (factor 0) with the image (factor 1)."""
    values = images.float()
    mean = _gray(values).mean(dim=(1, 2, 3), keepdim=True).add_(0.5).floor_()
    return _blend(mean, values, factor)


def brightness(images: Tensor, factor: Tensor) -> Tensor:
    """Blend black (factor 0) with the image (factor 1)."""
    return _bytes(images.float().mul_(factor.view(-1, 1, 1, 1)).add_(TRUNCATION))


def sharpness(images: Tensor, factor: Tensor) -> Tensor:
    """Blend the smoothed image (factor 0) with the image (factor 1). The pixels at the border are not smoothed."""
    width = images.shape[3]
    # Sums over neighbors in one long line of all pixels, which is fastest. They are wrong at the borders, where lines
    # wrap around, so the original pixels are restored there.
    line = images.to(torch.int16).view(-1)
    across = (line[:-2] + line[1:-1]).add_(line[2:])
    box = (across[: -2 * width] + across[width:-width]).add_(across[2 * width :])
    box.add_(line[width + 1 : -width - 1], alpha=4)
    values = images.float()
    smooth = values.clone()
    smooth.view(-1)[width + 1 : -width - 1] = box.float().mul_(1.0 / 13.0).add_(0.5).floor_()
    for border in (0, -1):
        smooth[:, :, border] = values[:, :, border]
        smooth[:, :, :, border] = values[:, :, :, border]
    return _blend(smooth, values, factor)


def _histograms(lines: Tensor) -> Tensor:
    """The histogram of each line of bytes: (lines, 256)."""
    if lines.shape[1] > SHORT_LINE:
        return torch.stack([line.bincount(minlength=256) for line in lines])
    first = torch.arange(0, 256 * len(lines), 256, device=lines.device).unsqueeze(1)
    return (lines + first).flatten().bincount(minlength=256 * len(lines)).view(-1, 256)


def _looked_up(lines: Tensor, tables: Tensor) -> Tensor:
    """Map each line of bytes with its own table (256,)."""
    if lines.device.type != "cpu":
        return tables.gather(1, lines.long())
    # bytes.translate is several times faster than a gather.
    pairs = zip(lines.numpy(), tables.numpy(), strict=True)
    mapped = bytearray().join(line.tobytes().translate(table.tobytes()) for line, table in pairs)
    return torch.frombuffer(mapped, dtype=torch.uint8).view_as(lines)


def _gray(values: Tensor) -> Tensor:
    """Luma rounded to whole numbers, (B, 1, H, W)."""
    if values.shape[1] == 1:
        return values.clone()
    level = values[:, :1] * 0.299
    return level.add_(values[:, 1:2], alpha=0.587).add_(values[:, 2:], alpha=0.114).add_(0.5).floor_()


def _blend(degenerate: Tensor, values: Tensor, factor: Tensor) -> Tensor:
    """(1 - factor) * degenerate + factor * values, in place. For factors in [0, 1], no clamp is needed."""
    factor = factor.view(-1, 1, 1, 1)
    return _bytes(values.mul_(factor).add_(degenerate.mul_(1.0 - factor).add_(TRUNCATION)))


def _bytes(values: Tensor) -> Tensor:
    """Truncated to uint8, via int16, for which a CPU has vector instructions."""
    return values.to(torch.int16).to(torch.uint8)
