"""Plain, weak and strong views: the three branches of the second stage (paper III-B), and alpha and beta of III-C."""

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from spice.augment import draws, geometry
from spice.augment.base import Recipe, portions
from spice.augment.operations import OPERATIONS, Operation

# From this side in pixels on, strong views are faster one by one in Pillow, on a CPU.
ALONE_FROM = 128


class Plain(Recipe):
    """The central square at the right size, normalized; not random."""

    def __call__(
        self,
        images: Tensor,
        generator: torch.Generator | None = None,
        *,
        rows: Tensor | None = None,  # noqa: ARG002
        of: int | None = None,  # noqa: ARG002
    ) -> Tensor:
        """Views of `images`. As all recipes it takes a generator, which it does not use."""
        return super().__call__(images, generator or torch.Generator())

    _columns = 0

    def _fill(self, views: Tensor, images: Tensor, uniforms: draws.Uniform) -> None:  # noqa: ARG002
        self._fill_normalized(views, geometry.fitted(images, self.size))


class Weak(Recipe):
    """Randomly mirrored, and moved by at most an eighth of the side (black outside the image)."""

    _columns = 3

    def _fill(self, views: Tensor, images: Tensor, uniforms: draws.Uniform) -> None:
        scale, offset = self._scale_and_offset(views.device, full=255.0)
        flip = self._mirror(uniforms)
        most = max(1, round(self.settings.shift * self.size / 32))
        moves = draws.integers(-most, most, uniforms.columns(2))
        images = geometry.fitted(images, self.size)
        room = torch.empty_like(images[next(portions(views))])  # for one portion at a time
        for part in portions(views):
            out = room[: part.stop - part.start]
            view = geometry.shifted(images[part], moves[part], flip=flip[part], out=out)
            views[part].copy_(view).mul_(scale).sub_(offset)


class Strong(Recipe):
    """Randomly mirrored, some of fourteen operations in random order, and a hole cut out (RandAugment, Cutout)."""

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations to draw from: without color none that changes tones, without rotation no rotation."""
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
        kinds = draws.integers(0, len(self.operations) - 1, uniforms.columns(self.settings.operations))
        strengths = uniforms.columns(self.settings.operations)
        mirrored = geometry.mirrored(geometry.fitted(images, self.size), flip)
        self._fill_normalized(views, self._operated(mirrored, kinds, strengths))
        surface = views.numpy() if views.device.type == "cpu" else views  # the same memory, in a quarter of the time
        for number, (top, left, bottom, right) in enumerate(self._holes(uniforms).tolist()):
            surface[number, :, top:bottom, left:right] = 0.0

    def _operated(self, images: Tensor, kinds: draws.Integers, strengths: draws.Floats) -> Tensor:
        """Each image through its operations, `kinds` and `strengths` being (B, steps)."""
        if images.device.type == "cpu" and self.size >= ALONE_FROM:
            return self._operated_alone(images, kinds, strengths)
        return self._operated_together(images, kinds, strengths)

    def _operated_alone(self, images: Tensor, kinds: draws.Integers, strengths: draws.Floats) -> Tensor:
        results = np.empty(images.shape, dtype=np.uint8)
        for image, result, steps in zip(
            images.numpy(), results, np.stack([kinds, strengths], axis=2).tolist(), strict=True
        ):
            planes = [Image.fromarray(plane) for plane in image]
            picture = planes[0] if len(planes) == 1 else Image.merge("RGB", planes)
            for kind, strength in steps:
                operation = self.operations[int(kind)]
                picture = operation.alone(picture, operation.low + (operation.high - operation.low) * strength)
            for plane, channel in zip(result, picture.split(), strict=True):
                plane[:] = channel
        return torch.from_numpy(results)

    def _operated_together(self, images: Tensor, kinds: draws.Integers, strengths: draws.Floats) -> Tensor:
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

    def _holes(self, uniforms: draws.Uniform) -> draws.Integers:
        """Top, left, bottom, right of a square per image, (B, 4): sides up to the set share, cut by the border."""
        longest = round(self.settings.cutout * self.size)
        side = draws.integers(min(1, longest), longest, uniforms.columns(1))
        corner = draws.integers(0, self.size - 1, uniforms.columns(2)) - side // 2
        holes: draws.Integers = np.maximum(np.concatenate([corner, corner + side], axis=1), 0)
        return holes
