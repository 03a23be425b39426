"""Views per second: spice.augment against the same recipes in Pillow, from uint8 images to tensors, on one thread.

    python benchmarks/augment.py [--images FOLDER] [--sizes 32 96 160 224] [--rounds 15]

Both sides alternate in rounds of some tens of milliseconds, so that other work on the machine affects both alike. Each
round gives a ratio; printed are the median and the quartiles. Times are processor seconds. Without a folder of photos,
smooth random images are used: no operation's time depends on the content of an image.
"""

import argparse
import math
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from torch import Tensor

from spice.augment import Contrastive, Plain, Recipe, Strong, Weak
from spice.augment.operations import OPERATIONS
from spice.settings import IMAGENET, AugmentSettings, Normalization

BATCH = {32: 128, 96: 128}  # by size, as in training; 32 for others
MIRROR = Image.Transpose.FLIP_LEFT_RIGHT
SECONDS = 0.03  # per side and round


def pictures(folder: Path | None, size: int) -> Tensor:
    """A batch of images, uint8 (B, 3, size, size)."""
    count = BATCH.get(size, 32)
    if folder is None:
        coarse = torch.rand(count, 3, 8, 8, generator=torch.Generator().manual_seed(0))
        smooth = F.interpolate(coarse, size=(size, size), mode="bicubic").clamp(0.0, 1.0)
        return (smooth * 255.0).to(torch.uint8)
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in {".jpg", ".jpeg", ".png"})[::7]
    photos = [ImageOps.fit(Image.open(path).convert("RGB"), (size, size)) for path in paths[:count]]
    flat = [torch.frombuffer(bytearray(photo.tobytes()), dtype=torch.uint8) for photo in photos]
    return torch.stack(flat).view(-1, size, size, 3).permute(0, 3, 1, 2).contiguous()


def seconds(work: Callable[[int], object], times: int) -> float:
    """Mean processor seconds of a call, over `times` calls."""
    start = time.process_time()
    for number in range(times):
        work(number)
    return (time.process_time() - start) / times


def alternately(*works: Callable[[int], object], rounds: int) -> list[list[float]]:
    """Mean processor seconds of each work, for every round."""
    times = [max(1, round(SECONDS / seconds(work, 2))) for work in works]
    return [[seconds(work, often) for work, often in zip(works, times, strict=True)] for _ in range(rounds)]


def compare(size: int, images: Tensor, rounds: int) -> None:
    photos = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in images]
    settings = AugmentSettings()
    rival = PillowRecipes(settings, size=size, normalization=IMAGENET)
    pairs: list[tuple[Recipe, Callable[[Image.Image], Tensor]]] = [
        (Plain(settings, size=size, normalization=IMAGENET), rival.plain),
        (Contrastive(settings, size=size, normalization=IMAGENET), rival.contrastive),
        (Weak(settings, size=size, normalization=IMAGENET), rival.weak),
        (Strong(settings, size=size, normalization=IMAGENET), rival.strong),
    ]
    for recipe, pillow in pairs:
        random.seed(0)
        taken = alternately(partial(batched, recipe, images), partial(one_by_one, pillow, photos), rounds=rounds)
        ours, theirs = (len(images) / statistics.median(times) for times in zip(*taken, strict=True))
        low, ratio, high = statistics.quantiles((pillows / own for own, pillows in taken), n=4)
        name = type(recipe).__name__.lower()
        print(f"| {size} | {name} | {ours:,.0f} | {theirs:,.0f} | {ratio:.2f} | {low:.2f} to {high:.2f} |", flush=True)


def batched(recipe: Recipe, images: Tensor, seed: int) -> Tensor:
    return recipe(images, torch.Generator().manual_seed(seed))


def one_by_one(recipe: Callable[[Image.Image], Tensor], photos: list[Image.Image], _: int) -> Tensor:
    return torch.stack([recipe(photo) for photo in photos])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, default=None)
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 96, 160, 224])
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("| size | recipe | spice, views/s | Pillow, views/s | ratio | middle half |\n|---|---|---|---|---|---|")
    for size in arguments.sizes:
        compare(size, pictures(arguments.images, size), arguments.rounds)


class PillowRecipes:
    """The recipes of spice.augment in Pillow, image by image, as fast as Pillow can: the rival."""

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
    """One of the four operations of ColorJitter."""
    if kind < 3:
        enhancer = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)[kind]
        return enhancer(picture).enhance(random.uniform(0.6, 1.4))
    return hue(picture, random.uniform(-0.1, 0.1))


def hue(picture: Image.Image, turn: float) -> Image.Image:
    """Shift the hue in 8-bit HSV."""
    channel, saturation, value = picture.convert("HSV").split()
    turned = np.asarray(channel) + np.uint8(int(turn * 255) % 256)  # wraps around
    return Image.merge("HSV", (Image.fromarray(turned), saturation, value)).convert("RGB")


if __name__ == "__main__":
    main()
