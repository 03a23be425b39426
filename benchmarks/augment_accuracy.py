"""How far the color of contrastive views is from Pillow's, which clamps after each operation and turns hue in HSV.

    python benchmarks/augment_accuracy.py FOLDER_OF_IMAGES

Both get the same draws; without blur, and with blur before color (ours) against blur after it (Pillow's order).
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from pillow_recipes import hue
from spice.augment import color, geometry
from spice.augment.draws import between
from spice.augment.recipes import BLUR, JITTER, TURN

SIZE = 96
COUNT = 300
ENHANCERS = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)


def in_pillow(picture: Image.Image, order: list[int], factors: list[float], turn: float) -> Tensor:
    for kind in order:
        picture = hue(picture, turn) if kind == color.HUE else ENHANCERS[kind](picture).enhance(factors[kind])
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1).float()


def report(name: str, ours: Tensor, theirs: Tensor) -> None:
    difference = (ours - theirs).abs()
    share = (difference > 10.0).float().mean().item()
    print(f"{name}: mean {difference.mean().item():.2f} gray levels, {share:.1%} of values off by more than 10")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    paths = sorted(path for path in parser.parse_args().folder.rglob("*") if path.suffix.lower() in {".jpg", ".jpeg"})
    pictures = [ImageOps.fit(Image.open(path).convert("RGB"), (SIZE, SIZE)) for path in paths[::6][:COUNT]]
    images = torch.from_numpy(np.stack([np.array(picture) for picture in pictures])).permute(0, 3, 1, 2).float()
    count, source = len(pictures), torch.Generator().manual_seed(0)
    order = torch.rand(count, 4, generator=source).argsort(dim=1)
    factors = torch.from_numpy(between(*JITTER, torch.rand(count, 3, generator=source).numpy()))
    turns = torch.from_numpy(between(*TURN, torch.rand(count, generator=source).numpy()))
    matrix = geometry.blur_matrix(between(*BLUR, torch.rand(count, generator=source).numpy()), size=SIZE)
    blurred = geometry.resample(images, matrix, matrix)
    always, never = torch.ones(count, dtype=torch.bool), torch.zeros(count, dtype=torch.bool)
    for name, turn in (("without hue", torch.zeros(count)), ("with hue", turns)):
        maps = color.jitter(order, factors, turn, applied=always, gray=never, channels=3)
        draws = zip(pictures, order.tolist(), factors.tolist(), turn.tolist(), strict=True)
        theirs = torch.stack([in_pillow(*drawn) for drawn in draws])
        ours, ours_blurred = (
            maps.apply(values / 255.0, torch.zeros(3)).clamp(0.0, 1.0) * 255.0 for values in (images, blurred)
        )
        report(f"color {name}", ours, theirs)
        report(f"color {name}, and blur", ours_blurred, geometry.resample(theirs, matrix, matrix))
        report(f"  (what Pillow's color {name} does to the image)", theirs, images)


if __name__ == "__main__":
    main()
