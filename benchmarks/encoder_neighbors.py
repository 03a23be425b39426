"""A picture of what each encoder considers similar: one row per encoder, an image and then its nearest images.

    python benchmarks/encoder_neighbors.py IMAGES --out sheet.jpg [--encoders lite0 lite2 ...] [--count 800]

`pixels` is the image itself at 16 px, for comparison. No label is used; the names of class folders are only printed
below the pictures.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont, ImageOps
from torch import Tensor

from spice.models.encoders import load_encoder

COLUMNS, SIDE, GAP, CAPTION, TITLE, TEXT = 8, 160, 6, 30, 80, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("--encoders", nargs="+", default=["pixels", "lite0", "lite2"])
    parser.add_argument("--count", type=int, default=800)
    parser.add_argument("--examples", type=int, nargs="+", default=[0, 3])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    random = np.random.default_rng(given.seed)
    paths = sorted(path for path in given.images.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    paths = [paths[row] for row in random.permutation(len(paths))[: given.count]]
    features = {name: encoded(name, paths) for name in given.encoders}
    height = SIDE + CAPTION + GAP
    sheet = Image.new("RGB", (TITLE + COLUMNS * (SIDE + GAP), len(given.examples) * len(features) * height), "white")
    for place, (query, name) in enumerate((query, name) for query in given.examples for name in features):
        nearest = (-features[name] @ features[name][query]).argsort()[:COLUMNS].tolist()
        draw_row(sheet, place * height, name, [paths[row] for row in nearest])
    sheet.save(given.out, quality=82)


def encoded(name: str, paths: list[Path]) -> NDArray[np.float32]:
    """Centered unit features of all images, cropped to squares, (N, D)."""
    encoder = None if name == "pixels" else load_encoder(name)
    size = 16 if encoder is None else encoder.size
    rows = []
    for start in range(0, len(paths), 32):
        images = torch.stack([pixels(path, size) for path in paths[start : start + 32]])
        if encoder is None:
            rows.append(images.flatten(start_dim=1) / 255.0)
        else:
            wanted = encoder.normalization
            mean, std = (torch.tensor(values).view(1, -1, 1, 1) for values in (wanted.mean, wanted.std))
            rows.append(encoder.encode((images / 255.0 - mean) / std))
    features = torch.cat(rows)
    features = features - features.mean(dim=0)
    unit: NDArray[np.float32] = (features / features.norm(dim=1, keepdim=True)).numpy()
    return unit


def pixels(path: Path, size: int) -> Tensor:
    image = ImageOps.fit(Image.open(path).convert("RGB"), (size, size), Image.Resampling.BICUBIC)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float()


def draw_row(sheet: Image.Image, top: int, title: str, paths: list[Path]) -> None:
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=TEXT)
    draw.text((4, top + SIDE // 2), title, fill="black", font=font)
    for column, path in enumerate(paths):
        left = TITLE + column * (SIDE + GAP) + (GAP if column else 0)
        sheet.paste(ImageOps.fit(Image.open(path).convert("RGB"), (SIDE, SIDE)), (left, top))
        draw.text((left + 2, top + SIDE), path.parent.name, fill="black", font=font)


if __name__ == "__main__":
    main()
