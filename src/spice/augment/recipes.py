"""Views of images: contrastive ones (paper III-A); plain, weak (alpha) and strong (beta) ones (paper III-B and III-C).

A recipe maps uint8 images (B, C, H, W) to normalized float views (B, C, size, size) on the same device. Its random
parameters depend on the generator alone (see `draws`). A process that has only some images of a batch passes their
rows, `recipe(images, generator, rows=rows, of=batch_size)`, and gets the same views as a single process.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from spice.augment import color, draws, geometry
from spice.augment.operations import OPERATIONS, Operation
from spice.settings import AugmentSettings, Normalization

# On a CPU, images are processed in portions that fit into the cache of a core.
CACHED_FLOATS = 200_000
# On a CPU, strong views with at least this many pixels on a side are faster one by one, in Pillow.
ONE_BY_ONE_FROM = 128

# MoCo-v2's augmentation.
ASPECT = (3 / 4, 4 / 3)
BLUR_CHANCE, BLUR = 0.5, (0.1, 2.0)  # sigma in pixels of the view
JITTER_CHANCE, JITTER, TURN = 0.8, (0.6, 1.4), (-0.1, 0.1)  # ColorJitter(0.4, 0.4, 0.4, 0.1)
GRAY_CHANCE = 0.2


@dataclass(frozen=True)
class Recipe(ABC):
    """A kind of view."""

    settings: AugmentSettings
    size: int
    normalization: Normalization

    def __call__(
        self, images: Tensor, generator: torch.Generator, *, rows: Tensor | None = None, of: int | None = None
    ) -> Tensor:
        """Views of `images`, which are `rows` of a batch of `of` images (by default, the batch itself)."""
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] not in (1, 3):
            given = f"{images.dtype} {tuple(images.shape)}"
            raise ValueError(f"images must be uint8 (B, C, H, W) with 1 or 3 channels, got {given}")
        channels = len(self.normalization.mean)
        if channels != images.shape[1]:
            raise ValueError(f"the normalization is for {channels} channels, the images have {images.shape[1]}")
        # Allocated outside inference mode, so that networks can train on it; filled inside, which is faster.
        views = torch.empty(len(images), channels, self.size, self.size, device=images.device)
        with torch.inference_mode():
            uniforms = draws.Uniform(len(images), self._columns, generator, rows=rows, of=of)
            if len(images):
                self._fill(views, images, uniforms)
        return views

    @property
    @abstractmethod
    def _columns(self) -> int:
        """The number of uniform numbers that each image needs."""

    @abstractmethod
    def _fill(self, views: Tensor, images: Tensor, uniforms: draws.Uniform) -> None:
        """Write the views of `images` to `views`."""

    def _mirror(self, uniforms: draws.Uniform) -> draws.Booleans:
        return uniforms.column() < (0.5 if self.settings.flip else 0.0)

    def _scale_and_offset(self, device: torch.device, *, full: float) -> tuple[Tensor, Tensor]:
        """A factor, and an offset to subtract, that normalize values in [0, full]: (C, 1, 1) each."""
        mean, std = self.normalization.mean, self.normalization.std
        scale = [[[1.0 / (full * deviation)]] for deviation in std]
        offset = [[[level / deviation]] for level, deviation in zip(mean, std, strict=True)]
        return torch.tensor(scale, device=device), torch.tensor(offset, device=device)

    def _fill_normalized(self, views: Tensor, images: Tensor) -> None:
        scale, offset = self._scale_and_offset(views.device, full=255.0)
        for part in portions(views):
            views[part].copy_(images[part]).mul_(scale).sub_(offset)


def portions(images: Tensor, start: int = 0, end: int | None = None) -> Iterator[slice]:
    """Slices of `images` from `start` to `end`: on a CPU small enough for its cache, elsewhere a single one."""
    end = len(images) if end is None else end
    count = max(1, end - start)
    if images.device.type == "cpu":
        count = max(1, CACHED_FLOATS // max(1, images[0].numel()))
    for first in range(start, end, count):
        yield slice(first, min(first + count, end))


class Plain(Recipe):
    """The central square, resized and normalized; not random."""

    _columns = 0

    def __call__(
        self,
        images: Tensor,
        generator: torch.Generator | None = None,
        *,
        rows: Tensor | None = None,  # noqa: ARG002
        of: int | None = None,  # noqa: ARG002
    ) -> Tensor:
        """Views of `images`. The other arguments, which all recipes have, are not used."""
        return super().__call__(images, generator or torch.Generator())

    def _fill(self, views: Tensor, images: Tensor, uniforms: draws.Uniform) -> None:  # noqa: ARG002
        self._fill_normalized(views, geometry.central_square(images, self.size))


class Weak(Recipe):
    """Random flip, and a random shift with padding by zeros or by reflection."""

    _columns = 3

    def _fill(self, views: Tensor, images: Tensor, uniforms: draws.Uniform) -> None:
        scale, offset = self._scale_and_offset(views.device, full=255.0)
        flip = self._mirror(uniforms)
        most = max(1, round(self.settings.shift * self.size / 32))
        moves = draws.integers(-most, most, uniforms.columns(2))
        images = geometry.central_square(images, self.size)
        buffer = torch.empty_like(images[next(portions(views))])  # reused for every portion
        for part in portions(views):
            if self.settings.padding == "reflect":
                view = geometry.shifted_with_reflection(images[part], moves[part], flip=flip[part])
            else:
                out = buffer[: part.stop - part.start]
                view = geometry.shifted(images[part], moves[part], flip=flip[part], out=out)
            views[part].copy_(view).mul_(scale).sub_(offset)


class Strong(Recipe):
    """Random flip, RandAugment (a few of fourteen operations, drawn with replacement), and Cutout."""

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations to draw from, without those that the settings exclude."""
        return tuple(
            operation
            for operation in OPERATIONS
            if (self.settings.color or not operation.tone) and (self.settings.rotation or operation.name != "rotate")
        )

    @property
    def _columns(self) -> int:
        return 4 + 2 * self.settings.operations

    def _fill(self, views: Tensor, images: Tensor, uniforms: draws.Uniform) -> None:
        flip = self._mirror(uniforms)
        kinds = draws.integers(0, len(self.operations) - 1, uniforms.columns(self.settings.operations))  # (B, steps)
        strengths = uniforms.columns(self.settings.operations)
        mirrored = geometry.mirrored(geometry.central_square(images, self.size), flip)
        one_by_one = images.device.type == "cpu" and self.size >= ONE_BY_ONE_FROM
        operate = self._one_by_one if one_by_one else self._together
        self._fill_normalized(views, operate(mirrored, kinds, strengths))
        # Cutout: a square hole in each image, with sides up to a share of the side of the view, clipped at the border.
        longest = round(self.settings.cutout * self.size)
        side = draws.integers(min(1, longest), longest, uniforms.columns(1))
        corner = draws.integers(0, self.size - 1, uniforms.columns(2)) - side // 2
        holes = np.maximum(np.concatenate([corner, corner + side], axis=1), 0)  # (B, 4)
        surface = views.numpy() if views.device.type == "cpu" else views  # the same memory, but four times faster
        for number, (top, left, bottom, right) in enumerate(holes.tolist()):
            surface[number, :, top:bottom, left:right] = 0.0

    def _one_by_one(self, images: Tensor, kinds: draws.Integers, strengths: draws.Floats) -> Tensor:
        results = np.empty(images.shape, dtype=np.uint8)
        for image, result, steps in zip(
            images.numpy(), results, np.stack([kinds, strengths], axis=2).tolist(), strict=True
        ):
            planes = [Image.fromarray(plane) for plane in image]
            picture = planes[0] if len(planes) == 1 else Image.merge("RGB", planes)
            for kind, strength in steps:
                operation = self.operations[int(kind)]
                magnitude = operation.low + (operation.high - operation.low) * strength
                picture = operation.apply_to_picture(picture, magnitude)
            for plane, channel in zip(result, picture.split(), strict=True):
                plane[:] = channel
        return torch.from_numpy(results)

    def _together(self, images: Tensor, kinds: draws.Integers, strengths: draws.Floats) -> Tensor:
        place = np.arange(len(images))
        for step in range(kinds.shape[1]):
            # Images with the same operation are sorted together and processed as one slice.
            order = kinds[place, step].argsort(stable=True)
            place = place[order]
            images = images.index_select(0, torch.from_numpy(order).to(images.device))
            ends = np.bincount(kinds[place, step], minlength=len(self.operations)).cumsum().tolist()
            strength = torch.from_numpy(strengths[place, step]).to(images.device)
            for operation, start, end in zip(self.operations, [0, *ends], ends, strict=False):
                for part in portions(images, start, end):
                    magnitude = operation.low + (operation.high - operation.low) * strength[part]
                    images[part] = operation.apply(images[part], magnitude)
        return images.index_select(0, torch.from_numpy(place.argsort()).to(images.device))


class Contrastive(Recipe):
    """MoCo-v2's views: random resized crop, color jitter, grayscale, blur, flip.

    Crop, resize, blur and flip are two matrices per image, color and normalization one affine map. So blur comes before
    color, not after it. This matters only where values are clamped.
    """

    _columns = draws.CROP_COLUMNS + 13

    def _fill(self, views: Tensor, images: Tensor, uniforms: draws.Uniform) -> None:
        boxes = draws.crops(uniforms, *images.shape[2:], scale=self.settings.crop_scale, ratio=ASPECT)
        flip = self._mirror(uniforms)
        sigma = draws.between(*BLUR, uniforms.column())
        sigma *= uniforms.column() < (BLUR_CHANCE if self.settings.blur else 0.0)
        jitter = color.jitter(
            torch.from_numpy(uniforms.columns(4)).argsort(dim=1),
            torch.from_numpy(draws.between(*JITTER, uniforms.columns(3))),
            torch.from_numpy(draws.between(*TURN, uniforms.column())),
            applied=torch.from_numpy(uniforms.column() < (JITTER_CHANCE if self.settings.color else 0.0)),
            gray=torch.from_numpy(uniforms.column() < (GRAY_CHANCE if self.settings.color else 0.0)),
            channels=views.shape[1],
        )
        scale, offset = self._scale_and_offset(views.device, full=1.0)
        maps = [matrix.to(views.device) * scale.squeeze(2) for matrix in jitter]
        for part in portions(views):
            box = draws.Boxes(*(side[part] for side in boxes))
            view = _resampled(images[part], box, flip[part], sigma[part], size=self.size)
            color.ColorMaps(*(matrix[part] for matrix in maps)).apply(view, -offset, out=views[part])
            # Clamp to black and white, channel by channel: bounds that are tensors are six times slower.
            bounds = zip(self.normalization.mean, self.normalization.std, strict=True)
            for channel, (mean, std) in zip(views[part].unbind(dim=1), bounds, strict=True):
                channel.clamp_(-mean / std, (1.0 - mean) / std)


def _resampled(images: Tensor, box: draws.Boxes, flip: draws.Booleans, sigma: draws.Floats, *, size: int) -> Tensor:
    """The images cropped, resized, mirrored and, where `sigma` is not 0, blurred: floats in [0, 1]."""
    height, width = images.shape[2:]
    rows = geometry.resize_matrix(box.top, box.height, pixels=height, size=size, device=images.device)
    columns = geometry.resize_matrix(box.left, box.width, pixels=width, size=size, flip=flip, device=images.device)
    chosen = np.flatnonzero(sigma)
    blur = geometry.blur_matrix(sigma[chosen], size=size, device=images.device)
    blurred = torch.from_numpy(chosen).to(images.device)
    for matrix in (rows, columns):
        matrix.index_copy_(0, blurred, torch.bmm(blur, matrix.index_select(0, blurred)))
    return geometry.resample(images.float(), rows.mul_(1.0 / 255.0), columns)
