"""Color jitter of contrastive views: brightness, contrast, saturation, hue and gray on floats in [0, 1].

The operations of torchvision's ColorJitter on tensors: each result is clamped, contrast turns about the mean gray of
what came before, hue turns in HSV. A gray picture (C = 1) has neither saturation nor hue.
Every function changes its first argument, float (B, C, H, W), in place; `factor` is (B, 1, 1, 1).
"""

from torch import Tensor

LUMA = (0.299, 0.587, 0.114)


def gray(images: Tensor) -> Tensor:
    """Luma of each pixel, (B, 1, H, W)."""
    if images.shape[1] == 1:
        return images.clone()
    red, green, blue = images.split(1, dim=1)
    return (red * LUMA[0]).add_(green, alpha=LUMA[1]).add_(blue, alpha=LUMA[2])


def grayscale_(images: Tensor) -> Tensor:
    """Every channel becomes the luma."""
    return images if images.shape[1] == 1 else images.copy_(gray(images))


def brightness_(images: Tensor, factor: Tensor) -> Tensor:
    """factor * image."""
    return images.mul_(factor).clamp_(max=1.0)


def contrast_(images: Tensor, factor: Tensor) -> Tensor:
    """factor * image + (1 - factor) * mean gray."""
    mean = gray(images.mean(dim=(2, 3), keepdim=True))  # luma is linear, so that of the mean is the mean of it
    return images.mul_(factor).add_(mean.mul_(1.0 - factor)).clamp_(0.0, 1.0)


def saturation_(images: Tensor, factor: Tensor) -> Tensor:
    """factor * image + (1 - factor) * gray image."""
    if images.shape[1] == 1:
        return images
    level = gray(images).mul_(1.0 - factor)
    return images.mul_(factor).add_(level).clamp_(0.0, 1.0)


def hue_(images: Tensor, turn: Tensor) -> Tensor:
    """Hue moved by `turn` of a full circle in HSV, value and saturation kept; a turn is in [-0.5, 0.5]."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.unbind(dim=1)
    lowest, chroma, sextant = _hue(red, green, blue)
    sextant += 6.0 * turn.view(-1, 1, 1)
    sextant -= (sextant / 6.0).floor_().mul_(6.0)  # in [0, 6)
    # Each channel is a trapezoid of the hue, between the lowest channel's value and the highest's.
    shape = (sextant - 3.0).abs_().sub_(1.0).clamp_(0.0, 1.0)
    red.copy_(shape.mul_(chroma).add_(lowest))
    shape = (sextant - 2.0).abs_().neg_().add_(2.0).clamp_(0.0, 1.0)
    green.copy_(shape.mul_(chroma).add_(lowest))
    shape = (sextant - 4.0).abs_().neg_().add_(2.0).clamp_(0.0, 1.0)
    blue.copy_(shape.mul_(chroma).add_(lowest))
    return images


def _hue(red: Tensor, green: Tensor, blue: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Lowest channel, chroma and hue in sextants, -1 to 5, of each pixel."""
    highest = red.maximum(green).maximum(blue)
    lowest = red.minimum(green).minimum(blue)
    chroma = highest - lowest
    inverse = chroma.clamp(min=1e-7).reciprocal_()
    is_red = (red == highest).to(red.dtype)
    is_green = (green == highest).to(red.dtype).mul_(1.0 - is_red)
    is_blue = (1.0 - is_red).sub_(is_green)
    # Sums of products instead of torch.where, which is several times slower on a CPU.
    sextant = (green - blue).mul_(is_red)
    sextant.addcmul_(blue - red, is_green).addcmul_(red - green, is_blue)
    sextant.mul_(inverse).add_(is_green, alpha=2.0).add_(is_blue, alpha=4.0)
    return lowest, chroma, sextant
