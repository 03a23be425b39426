"""Contrastive views: MoCo-v2's augmentation, for the feature model (paper III-A)."""

import numpy as np
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
        boxes = draws.crops(uniforms, *images.shape[2:], scale=self.settings.crop_scale, ratio=ASPECT)
        flip = self._mirror(uniforms)
        sigma = draws.between(*BLUR, uniforms.column())
        sigma *= uniforms.column() < (BLUR_CHANCE if self.settings.blur else 0.0)
        maps = self._colors(uniforms, views)
        _, offset = self._scale_and_offset(views.device, full=1.0)
        for part in portions(views):
            box = draws.Boxes(*(side[part] for side in boxes))
            view = _resampled(images[part], box, flip[part], sigma[part], size=self.size)
            color.ColorMaps(*(matrix[part] for matrix in maps)).apply(view, -offset, out=views[part])
            self._clamp_(views[part])

    def _colors(self, uniforms: draws.Uniform, views: Tensor) -> color.ColorMaps:
        """Color jitter, gray, and the scale of the normalization."""
        maps = color.jitter(
            torch.from_numpy(uniforms.columns(4)).argsort(dim=1),
            torch.from_numpy(draws.between(*JITTER, uniforms.columns(3))),
            torch.from_numpy(draws.between(*TURN, uniforms.column())),
            applied=torch.from_numpy(uniforms.column() < (JITTER_CHANCE if self.settings.color else 0.0)),
            gray=torch.from_numpy(uniforms.column() < (GRAY_CHANCE if self.settings.color else 0.0)),
            channels=views.shape[1],
        )
        scale, _ = self._scale_and_offset(views.device, full=1.0)
        return color.ColorMaps(*(matrix.to(views.device) * scale.squeeze(2) for matrix in maps))

    def _clamp_(self, views: Tensor) -> None:
        """Between black and white: channel by channel, because bounds that are tensors take six times as long."""
        for channel, mean, std in zip(
            views.unbind(dim=1), self.normalization.mean, self.normalization.std, strict=True
        ):
            channel.clamp_(-mean / std, (1.0 - mean) / std)


def _resampled(images: Tensor, box: draws.Boxes, flip: draws.Booleans, sigma: draws.Floats, *, size: int) -> Tensor:
    """Cropped, resized, mirrored and, where `sigma` is not 0, blurred: floats in [0, 1]."""
    height, width = images.shape[2:]
    rows = geometry.resize_matrix(box.top, box.height, pixels=height, size=size, device=images.device)
    columns = geometry.resize_matrix(box.left, box.width, pixels=width, size=size, flip=flip, device=images.device)
    chosen = np.flatnonzero(sigma)
    blur = geometry.blur_matrix(sigma[chosen], size=size, device=images.device)
    blurred = torch.from_numpy(chosen).to(images.device)
    for matrix in (rows, columns):
        matrix.index_copy_(0, blurred, torch.bmm(blur, matrix.index_select(0, blurred)))
    return geometry.resample(images.float(), rows.mul_(1.0 / 255.0), columns)
