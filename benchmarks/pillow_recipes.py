"""The recipes of spice.augment written with Pillow, image by image, as well as Pillow can: the rival and the judge."""

import math
import random
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from torch import Tensor

from spice.settings import AugmentSettings, Normalization

AFFINE = Image.Transform.AFFINE
MIRROR = Image.Transpose.FLIP_LEFT_RIGHT


class PillowRecipes:
    """Pictures in, normalized float tensor (C, size, size) out."""

    def __init__(self, settings: AugmentSettings, *, size: int, normalization: Normalization) -> None:
        self.settings = settings
        self.size = size
        self.mean = torch.tensor(normalization.mean).view(-1, 1, 1)
        self.deviation = torch.tensor(normalization.std).view(-1, 1, 1)

    def plain(self, picture: Image.Image) -> Tensor:
        return self._tensor(picture)

    def contrastive(self, picture: Image.Image) -> Tensor:
        left, top, right, bottom = crop_box(picture, self.settings.crop_scale)
        picture = picture.resize((self.size, self.size), Image.Resampling.BILINEAR, box=(left, top, right, bottom))
        if random.random() < 0.8:
            for kind in random.sample(range(4), 4):
                picture = jitter(picture, kind)
        if random.random() < 0.2:
            picture = picture.convert("L").convert("RGB")
        if random.random() < 0.5:
            picture = picture.filter(ImageFilter.GaussianBlur(random.uniform(0.1, 2.0)))
        return self._tensor(self._mirror(picture))

    def weak(self, picture: Image.Image) -> Tensor:
        most = round(self.settings.shift * self.size / 32)
        left, top = random.randint(-most, most), random.randint(-most, most)
        picture = self._mirror(picture)
        return self._tensor(picture.crop((left, top, left + self.size, top + self.size)))  # black outside

    def strong(self, picture: Image.Image) -> Tensor:
        picture = self._mirror(picture)
        for name, (low, high, operation) in random.choices(list(OPERATIONS.items()), k=self.settings.operations):
            if name != "identity":
                picture = operation(picture, random.uniform(low, high))
        view = self._tensor(picture)
        side = random.randint(1, round(self.settings.cutout * self.size))
        top = random.randrange(self.size) - side // 2
        left = random.randrange(self.size) - side // 2
        view[:, max(top, 0) : top + side, max(left, 0) : left + side] = 0.0
        return view

    def _mirror(self, picture: Image.Image) -> Image.Image:
        return picture.transpose(MIRROR) if random.random() < 0.5 else picture

    def _tensor(self, picture: Image.Image) -> Tensor:
        pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
        view = torch.empty(pixels.shape)
        return view.copy_(pixels).div_(255.0).sub_(self.mean).div_(self.deviation)


def crop_box(picture: Image.Image, scale: tuple[float, float]) -> tuple[int, int, int, int]:
    """RandomResizedCrop's box."""
    width, height = picture.size
    for _ in range(10):
        area = width * height * random.uniform(*scale)
        aspect = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            left, top = random.randint(0, width - w), random.randint(0, height - h)
            return left, top, left + w, top + h
    return 0, 0, width, height


def jitter(picture: Image.Image, kind: int) -> Image.Image:
    """One of ColorJitter's four operations."""
    if kind < 3:
        enhancer = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)[kind]
        return enhancer(picture).enhance(random.uniform(0.6, 1.4))
    return hue(picture, random.uniform(-0.1, 0.1))


def hue(picture: Image.Image, turn: float) -> Image.Image:
    """Hue turned in 8-bit HSV."""
    channel, saturation, value = picture.convert("HSV").split()
    turned = np.asarray(channel) + np.uint8(int(turn * 255) % 256)  # wraps around
    return Image.merge("HSV", (Image.fromarray(turned), saturation, value)).convert("RGB")


def _sheared(picture: Image.Image, *, x: float = 0.0, y: float = 0.0) -> Image.Image:
    return picture.transform(picture.size, AFFINE, (1.0, x, 0.0, y, 1.0, 0.0))


def _moved(picture: Image.Image, *, x: float = 0.0, y: float = 0.0) -> Image.Image:
    return picture.transform(picture.size, AFFINE, (1.0, 0.0, x * picture.width, 0.0, 1.0, y * picture.height))


OPERATIONS: dict[str, tuple[float, float, Callable[[Image.Image, float], Image.Image]]] = {
    "identity": (0.0, 0.0, lambda picture, _: picture),
    "autocontrast": (0.0, 0.0, lambda picture, _: ImageOps.autocontrast(picture)),
    "equalize": (0.0, 0.0, lambda picture, _: ImageOps.equalize(picture)),
    "rotate": (-30.0, 30.0, lambda picture, degrees: picture.rotate(degrees)),
    "solarize": (0.0, 256.0, lambda picture, threshold: ImageOps.solarize(picture, math.ceil(threshold))),
    "color": (0.05, 0.95, lambda picture, factor: ImageEnhance.Color(picture).enhance(factor)),
    "contrast": (0.05, 0.95, lambda picture, factor: ImageEnhance.Contrast(picture).enhance(factor)),
    "brightness": (0.05, 0.95, lambda picture, factor: ImageEnhance.Brightness(picture).enhance(factor)),
    "sharpness": (0.05, 0.95, lambda picture, factor: ImageEnhance.Sharpness(picture).enhance(factor)),
    "shear x": (-0.1, 0.1, lambda picture, amount: _sheared(picture, x=amount)),
    "shear y": (-0.1, 0.1, lambda picture, amount: _sheared(picture, y=amount)),
    "translate x": (-0.1, 0.1, lambda picture, share: _moved(picture, x=share)),
    "translate y": (-0.1, 0.1, lambda picture, share: _moved(picture, y=share)),
    "posterize": (4.0, 9.0, lambda picture, bits: ImageOps.posterize(picture, min(int(bits), 8))),
}
