"""The random views of the paper: contrastive (III-A), weak and strong (alpha and beta of III-B and III-C), and plain.

A recipe takes uint8 images (B, C, H, W) and returns normalized float views (B, C, size, size) on the same device.
Its random parameters come from the generator alone (see `draws`). A process that holds only some images of a batch
says which, as in `recipe(images, generator, rows=rows, of=batch_size)`, and gets the views one process would get.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from spice.augment import color, draws, geometry
from spice.augment.operations import OPERATIONS, Operation
from spice.settings import AugmentSettings, Normalization

ASPECT = (3 / 4, 4 / 3)
JITTER_CHANCE = 0.8
JITTER = (  # operation, lowest and highest magnitude: ColorJitter(0.4, 0.4, 0.4, 0.1)
    (color.brightness_, 0.6, 1.4),
    (color.contrast_, 0.6, 1.4),
    (color.saturation_, 0.6, 1.4),
    (color.hue_, -0.1, 0.1),
)
GRAY_CHANCE = 0.2
BLUR_CHANCE = 0.5
BLUR = (0.1, 2.0)  # sigma in pixels of the view

# On a CPU, images go through in portions whose floats stay in a core's cache: two to three times as fast.
CACHED_FLOATS = 200_000


@dataclass(frozen=True)
class Plain:
    """No randomness: the central square at the right size, normalized."""

    settings: AugmentSettings
    size: int
    normalization: Normalization

    def __call__(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:  # noqa: ARG002
        """Views of `images`; the generator is there so that every recipe is called alike, and is not used."""
        views = _empty_views(images, self.size)
        for part in _portions(images, self.size):
            _normalize_into(views[part], geometry.fitted(images[part], self.size), self.normalization)
        return views


@dataclass(frozen=True)
class Contrastive:
    """MoCo-v2: random resized crop, color jitter, gray, blur, mirror.

    Crop, resize, blur and mirror are two matrices per image, so blur comes before color here and not after. Blur and
    color commute but for clamping and hue; docs/benchmarks.md gives the measured difference.
    """

    settings: AugmentSettings
    size: int
    normalization: Normalization

    def __call__(
        self, images: Tensor, generator: torch.Generator, *, rows: Tensor | None = None, of: int | None = None
    ) -> Tensor:
        """Views of `images`."""
        uniforms = draws.uniform(len(images), draws.CROP_COLUMNS + 13, generator, rows=rows, of=of)
        height, width = images.shape[2:]
        boxes = draws.crops(uniforms, height, width, scale=self.settings.crop_scale, ratio=ASPECT)
        flip = _chance(0.5 if self.settings.flip else 0.0, uniforms)
        blurred = _chance(BLUR_CHANCE, uniforms)
        sigma = draws.between(*BLUR, uniforms.column()) * blurred
        jitter = _chance(JITTER_CHANCE if self.settings.color else 0.0, uniforms)
        grayed = _chance(GRAY_CHANCE if self.settings.color else 0.0, uniforms)
        order = uniforms.columns(4).argsort(dim=1)  # (B, 4)
        magnitudes = uniforms.columns(4)

        views = _empty_views(images, self.size)
        for part in _portions(images, self.size):
            matrices = geometry.view_matrices(
                draws.Boxes(*(side[part] for side in boxes)),
                flip[part],
                sigma[part],
                height=height,
                width=width,
                size=self.size,
            )
            rows_, columns_ = (matrix.to(images.device) for matrix in matrices)
            view = geometry.resample(images[part].float(), rows_ / 255.0, columns_)
            view = _jittered(view, order[part], magnitudes[part], jitter[part], grayed[part])
            _normalize_into(views[part], view, self.normalization, scale=1.0)
        return views


@dataclass(frozen=True)
class Weak:
    """Mirrored or not, and moved by a few pixels: an eighth of the side at most, black where nothing is."""

    settings: AugmentSettings
    size: int
    normalization: Normalization

    def __call__(
        self, images: Tensor, generator: torch.Generator, *, rows: Tensor | None = None, of: int | None = None
    ) -> Tensor:
        """Views of `images`."""
        uniforms = draws.uniform(len(images), 3, generator, rows=rows, of=of)
        flip = _chance(0.5 if self.settings.flip else 0.0, uniforms)
        most = max(1, round(self.settings.shift * self.size / 32))
        down = draws.integers(-most, most, uniforms.column())
        right = draws.integers(-most, most, uniforms.column())
        views = _empty_views(images, self.size)
        device = images.device
        for part in _portions(images, self.size):
            view = geometry.mirrored(geometry.fitted(images[part], self.size), flip[part].to(device))
            view = geometry.shifted(view, down[part].to(device), right[part].to(device), most=most)
            _normalize_into(views[part], view, self.normalization)
        return views


@dataclass(frozen=True)
class Strong:
    """Mirrored or not, some of fourteen operations in random order, and a hole cut out (RandAugment, Cutout)."""

    settings: AugmentSettings
    size: int
    normalization: Normalization

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What is drawn from. Without color, nothing that changes tones; without rotation, no turning."""
        return tuple(
            operation
            for operation in OPERATIONS
            if (self.settings.color or not operation.tone) and (self.settings.rotation or operation.name != "rotate")
        )

    def __call__(
        self, images: Tensor, generator: torch.Generator, *, rows: Tensor | None = None, of: int | None = None
    ) -> Tensor:
        """Views of `images`."""
        steps = self.settings.operations
        uniforms = draws.uniform(len(images), 4 + 2 * steps, generator, rows=rows, of=of)
        flip = _chance(0.5 if self.settings.flip else 0.0, uniforms)
        hole = self._holes(uniforms)
        kinds = draws.integers(0, len(self.operations) - 1, uniforms.columns(steps))
        strengths = uniforms.columns(steps)
        views = _empty_views(images, self.size)
        for part in _portions(images, self.size, floats=4 * CACHED_FLOATS):
            view = geometry.mirrored(geometry.fitted(images[part], self.size), flip[part].to(images.device))
            view = self._operated(view, kinds[part], strengths[part])
            _normalize_into(views[part], view, self.normalization)
            views[part].mul_(hole[part].to(images.device))
        return views

    def _operated(self, images: Tensor, kinds: Tensor, strengths: Tensor) -> Tensor:
        """Each image through its operations, `kinds` and `strengths` being (B, steps)."""
        place = torch.arange(len(images))
        for step in range(kinds.shape[1]):
            # Images that take the same operation are brought together, and go through it as a slice.
            order = kinds[place, step].argsort(stable=True)
            place = place[order]
            images = images.index_select(0, order.to(images.device))
            counts = kinds[place, step].bincount(minlength=len(self.operations)).tolist()
            groups = images.split(counts)
            levels = strengths[place, step].split(counts)
            for operation, group, level in zip(self.operations, groups, levels, strict=True):
                if len(group) and operation.name != "identity":
                    magnitude = draws.between(operation.low, operation.high, level).to(images.device)
                    group.copy_(operation.apply(group, magnitude))
        return images.index_select(0, place.argsort().to(images.device))

    def _holes(self, uniforms: draws.Uniform) -> Tensor:
        """0 in one square per image and 1 outside, (B, 1, S, S); sides of up to the set share, cut by the border."""
        longest = round(self.settings.cutout * self.size)
        side = draws.integers(min(1, longest), longest, uniforms.column()).view(-1, 1)
        pixel = torch.arange(self.size)
        row = draws.integers(0, self.size - 1, uniforms.column()).view(-1, 1) - side // 2
        column = draws.integers(0, self.size - 1, uniforms.column()).view(-1, 1) - side // 2
        in_rows = (pixel >= row) & (pixel < row + side)  # (B, S)
        in_columns = (pixel >= column) & (pixel < column + side)
        return (~(in_rows.unsqueeze(2) & in_columns.unsqueeze(1))).unsqueeze(1).float()


def _chance(probability: float, uniforms: draws.Uniform) -> Tensor:
    return uniforms.column() < probability


def _empty_views(images: Tensor, size: int) -> Tensor:
    if images.dtype != torch.uint8 or images.ndim != 4:
        raise ValueError(f"images must be uint8 (B, C, H, W), got {images.dtype} {tuple(images.shape)}")
    return torch.empty(len(images), images.shape[1], size, size, device=images.device)


def _portions(images: Tensor, size: int, *, floats: int = CACHED_FLOATS) -> Iterator[slice]:
    count = len(images)
    largest = images.shape[1] * max(size * size, images.shape[2] * images.shape[3])
    portion = max(1, floats // largest) if images.device.type == "cpu" else max(1, count)
    for start in range(0, count, portion):
        yield slice(start, start + portion)


def _normalize_into(out: Tensor, images: Tensor, normalization: Normalization, *, scale: float = 255.0) -> None:
    """(images / scale - mean) / std, written to `out`."""
    channels = images.shape[1]
    if len(normalization.mean) != channels or len(normalization.std) != channels:
        raise ValueError(f"the normalization is for {len(normalization.mean)} channels, the images have {channels}")
    mean = torch.tensor(normalization.mean, device=out.device).view(1, -1, 1, 1)
    std = torch.tensor(normalization.std, device=out.device).view(1, -1, 1, 1)
    out.copy_(images).mul_(1.0 / (scale * std)).sub_(mean / std)


def _jittered(images: Tensor, order: Tensor, magnitudes: Tensor, jitter: Tensor, grayed: Tensor) -> Tensor:
    """The four color operations in each image's own order, then gray where drawn."""
    kinds = torch.where(jitter.unsqueeze(1), order, len(JITTER))  # (B, 4); the last kind is none
    place = torch.arange(len(images))
    for step in range(len(JITTER)):
        moved = kinds[place, step].argsort(stable=True)
        place = place[moved]
        images = images.index_select(0, moved.to(images.device))
        counts = kinds[place, step].bincount(minlength=len(JITTER) + 1).tolist()
        for kind, (group, where) in enumerate(zip(images.split(counts), place.split(counts), strict=True)):
            if kind < len(JITTER) and len(group):
                operation, low, high = JITTER[kind]
                magnitude = draws.between(low, high, magnitudes[where, kind])
                operation(group, magnitude.view(-1, 1, 1, 1).to(images.device))
    moved = grayed[place].int().argsort(stable=True)
    place = place[moved]
    images = images.index_select(0, moved.to(images.device))
    color.grayscale_(images[len(images) - int(grayed.sum()) :])
    return images.index_select(0, place.argsort().to(images.device))
