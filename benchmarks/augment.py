"""Views per second of spice.augment against the same recipes in Pillow: one thread, one run, uint8 in, tensor out.

    python benchmarks/augment.py [--images FOLDER] [--sizes 32 96 160 224]

Times are of the processor, not of the clock, so that a busy machine does not blur them. Without a folder of photos,
smooth random pictures stand in; no operation's time depends on what is in the picture.
"""

import argparse
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from PIL import Image, ImageOps
from torch import Tensor

from pillow_recipes import PillowRecipes
from spice.augment import Contrastive, Plain, Recipe, Strong, Weak
from spice.settings import IMAGENET, AugmentSettings

BATCH = {32: 128, 96: 128}  # what these sizes are trained with; larger ones: 32
TURNS = 5
ROUNDS = 5


def pictures(folder: Path | None, size: int) -> Tensor:
    """A batch of them, uint8 (B, 3, size, size)."""
    count = BATCH.get(size, 32)
    if folder is None:
        coarse = torch.rand(count, 3, 8, 8, generator=torch.Generator().manual_seed(0))
        smooth = F.interpolate(coarse, size=(size, size), mode="bicubic").clamp(0.0, 1.0)
        return (smooth * 255.0).to(torch.uint8)
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in {".jpg", ".jpeg", ".png"})[::7]
    photos = [ImageOps.fit(Image.open(path).convert("RGB"), (size, size)) for path in paths[:count]]
    flat = [torch.frombuffer(bytearray(photo.tobytes()), dtype=torch.uint8) for photo in photos]
    return torch.stack(flat).view(-1, size, size, 3).permute(0, 3, 1, 2).contiguous()


def fastest(*works: Callable[[int], object]) -> list[float]:
    """Processor seconds of each work's fastest round; they take turns, so that they share good and bad moments."""
    times: list[list[float]] = [[] for _ in works]
    for turn in range(TURNS):
        for work, taken in zip(works, times, strict=True):
            for round_number in range(ROUNDS):  # the first of a turn finds the cache full of the other's data
                start = time.process_time()
                work(turn * ROUNDS + round_number)
                taken.append(time.process_time() - start)
    return [min(taken) for taken in times]


def compare(size: int, images: Tensor) -> None:
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
        ours, theirs = fastest(partial(batched, recipe, images), partial(one_by_one, pillow, photos))
        name = type(recipe).__name__.lower()
        print(
            f"| {size} | {name} | {len(images) / ours:,.0f} | {len(images) / theirs:,.0f} | {theirs / ours:.1f} |",
            flush=True,
        )


def batched(recipe: Recipe, images: Tensor, seed: int) -> Tensor:
    return recipe(images, torch.Generator().manual_seed(seed))


def one_by_one(recipe: Callable[[Image.Image], Tensor], photos: list[Image.Image], _: int) -> Tensor:
    return torch.stack([recipe(photo) for photo in photos])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, default=None)
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 96, 160, 224])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("| size | recipe | spice, views/s | Pillow, views/s | ratio |\n|---|---|---|---|---|")
    for size in arguments.sizes:
        compare(size, pictures(arguments.images, size))


if __name__ == "__main__":
    main()
