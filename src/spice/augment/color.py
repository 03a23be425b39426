"""Color jitter of contrastive views: brightness, contrast, saturation, hue and gray on floats in [0, 1].

The operations of torchvision's ColorJitter on tensors: each result is clamped, contrast turns about the mean gray of
what came before, hue turns in HSV. A gray picture (C = 1) has neither saturation nor hue.
Images are float (B, C, H, W); magnitudes are (B, 1, 1, 1).
"""

import torch
from torch import Tensor

LUMA = (0.299, 0.587, 0.114)


def gray(images: Tensor) -> Tensor:
    """Luma of each pixel, (B, 1, H, W)."""
    if images.shape[1] == 1:
        return images.clone()
    level = images[:, :1] * LUMA[0]
    return level.add_(images[:, 1:2], alpha=LUMA[1]).add_(images[:, 2:], alpha=LUMA[2])


def blend_(images: Tensor, scale: Tensor, toward_gray: Tensor, toward_mean: Tensor) -> Tensor:
    """scale * image + toward_gray * its gray + toward_mean * its mean gray, clamped to [0, 1].

    With a factor f, brightness is (f, 0, 0), saturation (f, 1 - f, 0) and contrast (f, 0, 1 - f), so that images
    which take different ones of the three go through together.
    """
    level = gray(images)
    mean = level.mean(dim=(2, 3), keepdim=True)
    level.mul_(toward_gray).add_(mean.mul_(toward_mean))
    return torch.addcmul(level, images, scale, out=images).clamp_(0.0, 1.0)


def hue_(images: Tensor, turn: Tensor) -> Tensor:
    """Hue moved by `turn` of a full circle in HSV, value and saturation kept; a turn is in [-0.5, 0.5]."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.unbind(dim=1)
    lowest, chroma, sextant = _hue(red, green, blue)
    sextant.add_(turn.view(-1, 1, 1), alpha=6.0)
    sextant.sub_((sextant * (1.0 / 6.0)).floor_(), alpha=6.0)  # in [0, 6)
    # Each channel is a trapezoid of the hue, between the lowest channel's value and the highest's.
    torch.addcmul(lowest, (sextant - 3.0).abs_().sub_(1.0).clamp_(0.0, 1.0), chroma, out=red)
    torch.addcmul(lowest, (sextant - 2.0).abs_().neg_().add_(2.0).clamp_(0.0, 1.0), chroma, out=green)
    torch.addcmul(lowest, sextant.sub_(4.0).abs_().neg_().add_(2.0).clamp_(0.0, 1.0), chroma, out=blue)
    return images


def _hue(red: Tensor, green: Tensor, blue: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Lowest channel, chroma and hue in sextants, -1 to 5, of each pixel."""
    highest = red.maximum(green).maximum(blue)
    lowest = red.minimum(green).minimum(blue)
    chroma = highest - lowest
    inverse = chroma.clamp(min=1e-7).reciprocal_()
    # Weights 0 and 1 instead of torch.where, which is several times slower on a CPU.
    is_red = (red == highest).to(red.dtype)
    not_red = 1.0 - is_red
    is_green = (green == highest).to(red.dtype).mul_(not_red)
    is_blue = not_red.sub_(is_green)
    sextant = (green - blue).mul_(is_red)
    sextant.addcmul_(blue - red, is_green).addcmul_(red - green, is_blue)
    sextant.mul_(inverse).add_(is_green, alpha=2.0).add_(is_blue, alpha=4.0)
    return lowest, chroma, sextant
