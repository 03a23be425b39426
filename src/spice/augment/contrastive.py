"""Contrastive views: MoCo-v2's augmentation, for the feature model (paper III-A)."""

from typing import NamedTuple

import torch
from torch import Tensor

from spice.augment import color, draws, geometry
from spice.augment.base import Recipe, portions

ASPECT = (3 / 4, 4 / 3)
BLUR_CHANCE, BLUR = 0.5, (0.1, 2.0)  # sigma in pixels of the view
JITTER_CHANCE, JITTER, TURN = 0.8, (0.6, 1.4), (-0.1, 0.1)  # ColorJitter(0.4, 0.4, 0.4, 0.1)
GRAY_CHANCE = 0.2


class Contrastive(Recipe):
    """Random resized crop, color jitter, gray, blur, mirror.

    Crop, resize, blur and mirror are two matrices per image, color and normalization an affine map: so blur comes
    before color here and not after, which matters only where values are clamped.
    """

    _columns = draws.CROP_COLUMNS + 13

    def _fill(self, views: Tensor, images: Tensor, uniforms: draws.Uniform) -> None:
        looks = self._looks(uniforms, images)
        # Images to be blurred are brought together.
        order = (looks.sigma == 0).int().argsort(stable=True)
        looks = _Looks(*(column[order].to(images.device) for column in looks))
        order = order.to(images.device)
        images = images.index_select(0, order)
        blurred = int((looks.sigma > 0).sum())
        scale, offset = (values.flatten() for values in self._scale_and_offset(views.device, full=1.0))
        black, white = -offset.view(-1, 1, 1), (scale - offset).view(-1, 1, 1)
        for part in portions(views):
            some = _Looks(*(column[part] for column in looks))
            view = _resampled(images[part], some, size=self.size, blurred=blurred - part.start)
            maps = color.ColorMaps(some.product * scale.view(-1, 1), some.of_mean * scale.view(-1, 1))
            views.index_copy_(0, order[part], maps.apply(view, -offset).clamp_(black, white))

    def _looks(self, uniforms: draws.Uniform, images: Tensor) -> "_Looks":
        boxes = draws.crops(uniforms, *images.shape[2:], scale=self.settings.crop_scale, ratio=ASPECT)
        flip = self._mirror(uniforms)
        sigma = draws.between(*BLUR, uniforms.column()) * (
            uniforms.column() < (BLUR_CHANCE if self.settings.blur else 0.0)
        )
        maps = color.jitter(
            uniforms.columns(4).argsort(dim=1),
            draws.between(*JITTER, uniforms.columns(3)),
            draws.between(*TURN, uniforms.column()),
            applied=uniforms.column() < (JITTER_CHANCE if self.settings.color else 0.0),
            gray=uniforms.column() < (GRAY_CHANCE if self.settings.color else 0.0),
            channels=images.shape[1],
        )
        return _Looks(*boxes, flip, sigma, *maps)


class _Looks(NamedTuple):
    """The drawn parameters; the first dimension is the image."""

    top: Tensor
    left: Tensor
    height: Tensor
    width: Tensor
    flip: Tensor
    sigma: Tensor  # 0: not blurred
    product: Tensor  # (B, C, C), as in color.ColorMaps
    of_mean: Tensor  # (B, C, C)


def _resampled(images: Tensor, looks: _Looks, *, size: int, blurred: int) -> Tensor:
    """Cropped, resized, mirrored and, the first `blurred`, blurred: floats in [0, 1]."""
    rows = geometry.resize_matrix(looks.top, looks.height, pixels=images.shape[2], size=size)
    columns = geometry.resize_matrix(looks.left, looks.width, pixels=images.shape[3], size=size, flip=looks.flip)
    if blurred > 0:
        blur = geometry.blur_matrix(looks.sigma[:blurred], size=size)
        rows[:blurred] = torch.bmm(blur, rows[:blurred])
        columns[:blurred] = torch.bmm(blur, columns[:blurred])
    return geometry.resample(images.float(), rows.mul_(1.0 / 255.0), columns)
