"""Photos for `benchmarks/scale.py`: random crops of real images, as JPEGs of 160 to 224 px.

The crop of a number depends on that number and on the originals alone.
"""

from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image

SIDES = 160, 224  # pixels
SHARE = 0.5, 0.9  # of an original's sides that a crop keeps
QUALITY = 85
PER_FOLDER = 1000
ENDINGS = (".jpg", ".jpeg", ".png")
SHORTEST = 150  # originals: a smaller one would be blurred


def make_photos(originals: list[Path], folder: Path, count: int) -> None:
    """Write what is missing of `count` crops of the images under the folders `originals`."""
    files = sorted(path for place in originals for path in place.rglob("*") if path.suffix.lower() in ENDINGS)
    files = [path for path in files if min(Image.open(path).size) >= SHORTEST]
    order = np.random.default_rng(0).permutation(len(files))
    opened = lru_cache(len(files))(lambda path: Image.open(path).convert("RGB"))
    for number in range(count):
        path = folder / f"{number // PER_FOLDER:04d}" / f"{number:07d}.jpg"
        if path.exists():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        _crop(opened(files[order[number % len(files)]]), number).save(path, quality=QUALITY)


def _crop(image: Image.Image, number: int) -> Image.Image:
    random = np.random.default_rng(number)
    width, height = (int(side * random.uniform(*SHARE)) for side in image.size)
    left, top = (
        int(random.integers(0, 1 + have - want)) for have, want in zip(image.size, (width, height), strict=True)
    )
    side = int(random.integers(SIDES[0], SIDES[1] + 1))
    size = (side, max(1, side * height // width)) if width < height else (max(1, side * width // height), side)
    found = image.resize(size, Image.Resampling.BILINEAR, box=(left, top, left + width, top + height))
    return found.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else found
