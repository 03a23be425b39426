"""Views per second of spice.augment against the same recipes in Pillow: one thread, one run, uint8 in, tensor out.

    python benchmarks/augment.py [--images FOLDER] [--sizes 32 96 160 224] [--rounds 15]

Both sides take turns in rounds of some tens of milliseconds, so that whatever else the machine does meets both alike.
Each round gives a ratio; the median of the ratios counts, and the quarter and three-quarter points tell its spread.
Times are of the processor, not of the clock. Without a folder of photos, smooth random pictures stand in; no
operation's time depends on what is in the picture.
"""

import argparse
import random
import statistics
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
SECONDS = 0.03  # of one side's share of a round


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


def seconds(work: Callable[[int], object], times: int) -> float:
    """Processor time of one call, of so many in a row."""
    start = time.process_time()
    for number in range(times):
        work(number)
    return (time.process_time() - start) / times


def in_turns(*works: Callable[[int], object], rounds: int) -> list[list[float]]:
    """Processor seconds of each work, in every round."""
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
        taken = in_turns(partial(batched, recipe, images), partial(one_by_one, pillow, photos), rounds=rounds)
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


if __name__ == "__main__":
    main()
