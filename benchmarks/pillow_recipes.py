"""The recipes of spice.augment written with Pillow, image by image, as well as Pillow can: the rival and the judge."""

import math
import random

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageFilter
from torch import Tensor

from spice.augment.operations import OPERATIONS
from spice.settings import AugmentSettings, Normalization

MIRROR = Image.Transpose.FLIP_LEFT_RIGHT


class PillowRecipes:
    """Pictures in, normalized float tensor (C, size, size) out."""

    def __init__(self, settings: AugmentSettings, *, size: int, normalization: Normalization) -> None:
        self.settings = settings
        self.size = size
        mean, deviation = (torch.tensor(values).view(-1, 1, 1) for values in (normalization.mean, normalization.std))
        self.scale, self.offset = 1.0 / (255.0 * deviation), mean / deviation

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
        for operation in random.choices(OPERATIONS, k=self.settings.operations):
            picture = operation.apply_to_picture(picture, random.uniform(operation.low, operation.high))
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
        view = torch.empty(pixels.shape)  # in this order: filling a contiguous tensor is the fastest
        return view.copy_(pixels).mul_(self.scale).sub_(self.offset)


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
