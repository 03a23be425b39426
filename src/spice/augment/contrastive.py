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
BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
NO_JITTER = 4


class Contrastive(Recipe):
    """Random resized crop, color jitter, gray, blur, mirror.

    Crop, resize, blur and mirror are two matrices per image, so blur comes before color here and not after. The two
    commute but for clamping and hue; docs/benchmarks.md gives the measured difference.
    """

    _columns = draws.CROP_COLUMNS + 13

    def _fill(self, views: Tensor, images: Tensor, uniforms: draws.Uniform) -> None:
        look = self._looks(uniforms, images)
        # Images with hue in the same place are brought together, those to be blurred first.
        order = (2 * look.hue_step - (look.sigma > 0).long()).argsort(stable=True)
        look = _Looks(*(column[order] for column in look))
        ends = look.hue_step.bincount(minlength=NO_JITTER + 1).cumsum(0).tolist()
        order = order.to(images.device)
        images = images.index_select(0, order)
        scale, offset = self._scale_and_offset(views.device, full=1.0)
        for hue_step, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
            for part in portions(views, start, end):
                some = _Looks(*(column[part] for column in look))
                view = _jittered_(self._resampled(images[part], some), some, hue_step)
                views.index_copy_(0, order[part], view.mul_(scale).sub_(offset))

    def _looks(self, uniforms: draws.Uniform, images: Tensor) -> "_Looks":
        boxes = draws.crops(uniforms, *images.shape[2:], scale=self.settings.crop_scale, ratio=ASPECT)
        flip = self._mirror(uniforms)
        sigma = draws.between(*BLUR, uniforms.column()) * (uniforms.column() < BLUR_CHANCE)
        jitter = uniforms.column() < (JITTER_CHANCE if self.settings.color else 0.0)
        gray = uniforms.column() < (GRAY_CHANCE if self.settings.color else 0.0)
        order = uniforms.columns(4).argsort(dim=1)  # of brightness, contrast, saturation, hue
        hue_step = torch.where(jitter, (order == HUE).int().argmax(dim=1), NO_JITTER)
        others = order[order != HUE].view(-1, 3)
        factor = draws.between(*JITTER, uniforms.columns(3)).gather(1, others)
        if images.shape[1] == 1:
            factor[others == SATURATION] = 1.0
        blends = torch.stack([factor, (1.0 - factor) * (others == SATURATION), (1.0 - factor) * (others == CONTRAST)])
        turn = draws.between(*TURN, uniforms.column())
        return _Looks(torch.stack(boxes, dim=1), flip, sigma, hue_step, turn, blends.permute(1, 2, 0), gray)

    def _resampled(self, images: Tensor, looks: "_Looks") -> Tensor:
        """Cropped, resized, mirrored and blurred: floats in [0, 1]."""
        device = images.device
        top, left = looks.box[:, :2].amin(dim=0).tolist()
        bottom, right = (looks.box[:, :2] + looks.box[:, 2:]).amax(dim=0).tolist()
        images = images[:, :, top:bottom, left:right]  # what no crop uses need not be looked at
        start_y, start_x, height, width = looks.box.to(device).unbind(dim=1)
        rows = geometry.resize_matrix(start_y - top, height, pixels=bottom - top, size=self.size)
        flip = looks.flip.to(device)
        columns = geometry.resize_matrix(start_x - left, width, pixels=right - left, size=self.size, flip=flip)
        blurred = int((looks.sigma > 0).sum())
        if blurred:
            blur = geometry.blur_matrix(looks.sigma[:blurred].to(device), size=self.size)
            rows[:blurred] = torch.bmm(blur, rows[:blurred])
            columns[:blurred] = torch.bmm(blur, columns[:blurred])
        return geometry.resample(images.float(), rows.mul_(1.0 / 255.0), columns)


class _Looks(NamedTuple):
    """The drawn parameters; the first dimension is the image."""

    box: Tensor  # (B, 4) top, left, height, width
    flip: Tensor
    sigma: Tensor  # 0: not blurred
    hue_step: Tensor  # how many of the other three color operations come before hue
    turn: Tensor
    blends: Tensor  # (B, 3, 3) for each of the three in its order, the magnitudes of color.blend_
    gray: Tensor


def _jittered_(views: Tensor, looks: _Looks, hue_step: int) -> Tensor:
    """Brightness, contrast, saturation and hue in each image's order, unless `hue_step` says none; gray where drawn."""
    if hue_step != NO_JITTER:
        blends = looks.blends.to(views.device).permute(1, 2, 0).reshape(3, 3, -1, 1, 1, 1)
        turn = looks.turn.to(views.device)
        for step in range(4):
            if step == hue_step:
                color.hue_(views, turn)
            if step < 3:
                color.blend_(views, *blends[step])
    grayed = looks.gray.nonzero()[:, 0].to(views.device)
    if len(grayed) and views.shape[1] == 3:
        views[grayed] = color.gray(views[grayed]).expand(-1, 3, -1, -1)
    return views
