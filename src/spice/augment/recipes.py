"""Plain, weak and strong views: the three branches of the second stage (paper III-B), and alpha and beta of III-C."""

import torch
from torch import Tensor

from spice.augment import draws, geometry
from spice.augment.base import Recipe, portions
from spice.augment.operations import OPERATIONS, Operation


class Plain(Recipe):
    """No randomness: the central square at the right size, normalized."""

    def __call__(
        self,
        images: Tensor,
        generator: torch.Generator | None = None,
        *,
        rows: Tensor | None = None,  # noqa: ARG002
        of: int | None = None,  # noqa: ARG002
    ) -> Tensor:
        """Views of `images`. A generator may be given, as to every recipe, and is not used."""
        return super().__call__(images, generator or torch.Generator())

    _columns = 0

    def _fill(self, views: Tensor, images: Tensor, uniforms: draws.Uniform) -> None:  # noqa: ARG002
        self._fill_normalized(views, geometry.fitted(images, self.size))


class Weak(Recipe):
    """Mirrored or not, and moved by a few pixels: an eighth of the side at most, black where nothing is."""

    _columns = 3

    def _fill(self, views: Tensor, images: Tensor, uniforms: draws.Uniform) -> None:
        scale, offset = self._scale_and_offset(views.device, full=255.0)
        flip = self._mirror(uniforms).unsqueeze(1).to(images.device)
        most = max(1, round(self.settings.shift * self.size / 32))
        moves = draws.integers(-most, most, uniforms.columns(2)).to(images.device)
        images = geometry.fitted(images, self.size)
        parts = list(portions(views))
        room = geometry.ShiftRoom(images, count=parts[0].stop, most=most, mirror=True)
        for part in parts:
            view = room.shifted(images[part], moves[part, :1], moves[part, 1:], flip=flip[part])
            views[part].copy_(view).mul_(scale).sub_(offset)


class Strong(Recipe):
    """Mirrored or not, some of fourteen operations in random order, and a hole cut out (RandAugment, Cutout)."""

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What is drawn from. Without color, nothing that changes tones; without rotation, no turning."""
        return tuple(
            operation
            for operation in OPERATIONS
            if (self.settings.color or not operation.tone) and (self.settings.rotation or operation.name != "rotate")
        )

    @property
    def _columns(self) -> int:
        return 4 + 2 * self.settings.operations

    def _fill(self, views: Tensor, images: Tensor, uniforms: draws.Uniform) -> None:
        flip = self._mirror(uniforms).to(images.device)
        kinds = draws.integers(0, len(self.operations) - 1, uniforms.columns(self.settings.operations))
        strengths = uniforms.columns(self.settings.operations)
        mirrored = geometry.mirrored(geometry.fitted(images, self.size), flip)
        self._fill_normalized(views, self._operated(mirrored, kinds, strengths))
        for view, (top, left, bottom, right) in zip(views, self._holes(uniforms).tolist(), strict=True):
            view[:, top:bottom, left:right] = 0.0

    def _operated(self, images: Tensor, kinds: Tensor, strengths: Tensor) -> Tensor:
        """Each image through its operations, `kinds` and `strengths` being (B, steps)."""
        place = torch.arange(len(images))
        for step in range(kinds.shape[1]):
            # Images that take the same operation are brought together, and go through it as one slice.
            order = kinds[place, step].argsort(stable=True)
            place = place[order]
            images = images.index_select(0, order.to(images.device))
            ends = kinds[place, step].bincount(minlength=len(self.operations)).cumsum(0).tolist()
            strength = strengths[place, step].to(images.device)
            for operation, start, end in zip(self.operations, [0, *ends], ends, strict=False):
                for part in portions(images, start, end):
                    magnitude = draws.between(operation.low, operation.high, strength[part])
                    images[part] = operation.apply(images[part], magnitude)
        return images.index_select(0, place.argsort().to(images.device))

    def _holes(self, uniforms: draws.Uniform) -> Tensor:
        """Top, left, bottom, right of a square per image, (B, 4): sides up to the set share, cut by the border."""
        longest = round(self.settings.cutout * self.size)
        side = draws.integers(min(1, longest), longest, uniforms.column()).unsqueeze(1)
        corner = draws.integers(0, self.size - 1, uniforms.columns(2)) - side // 2
        return torch.cat([corner, corner + side], dim=1).clamp_(min=0)
