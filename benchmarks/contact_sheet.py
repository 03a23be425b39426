"""A contact sheet of every recipe and every single operation of spice.augment on real images, to be looked at.

    python benchmarks/contact_sheet.py FOLDER_OF_IMAGES sheet.jpg [--size 96]

Rows are recipes, the operations of strong views, and those of contrastive views. In a row, an image as it is comes
first, then its views (recipes) or what magnitudes from the lowest to the highest do to it. Operations without a
magnitude are shown on several images, before and after.
"""

import argparse
from pathlib import Path

import torch
from PIL import Image, ImageDraw, ImageFont, ImageOps
from torch import Tensor

from spice.augment import Contrastive, Plain, Recipe, Strong, Weak, color, geometry
from spice.augment.operations import OPERATIONS
from spice.augment.recipes import BLUR, JITTER, TURN
from spice.settings import IMAGENET, AugmentSettings

COLUMNS = 8
GAP = 3
MARGIN = 124


def rows_of(photos: list[Tensor], size: int) -> list[tuple[str, Tensor]]:
    """Each row's name and uint8 pictures (COLUMNS, 3, size, size)."""
    rows = []
    recipes: tuple[type[Recipe], ...] = (Plain, Weak, Contrastive, Contrastive, Strong, Strong)
    for number, recipe in enumerate(recipes):
        photo = photos[number % len(photos)].expand(COLUMNS, -1, -1, -1).contiguous()
        views = recipe(AugmentSettings(), size=size, normalization=IMAGENET)
        rows.append((recipe.__name__.lower(), bytes_of(views(photo, torch.Generator().manual_seed(number)))))
        rows[-1][1][0] = photo[0]
    for number, operation in enumerate(OPERATIONS):
        photo = photos[number % len(photos)].expand(COLUMNS, -1, -1, -1).contiguous()
        levels = torch.linspace(operation.low, operation.high - 1e-3, COLUMNS - 1)
        if operation.low == operation.high:
            photo = torch.stack([photos[i % len(photos)] for i in range(COLUMNS // 2)])
            after = operation.apply(photo, torch.zeros(len(photo)))
            rows.append((operation.name, torch.stack([photo, after], dim=1).flatten(0, 1)))
        else:
            rows.append((operation.name, torch.cat([photo[:1], operation.apply(photo[1:], levels)])))
    return rows + jitter_rows(photos)


def jitter_rows(photos: list[Tensor]) -> list[tuple[str, Tensor]]:
    """What contrastive views are made of, one at a time."""
    rows, count = [], COLUMNS - 1
    for kind, name in enumerate(("jitter: brightness", "jitter: contrast", "jitter: saturation", "jitter: hue")):
        photo = photos[kind % len(photos)].expand(count, -1, -1, -1) / 255.0
        factors, turn = torch.ones(count, 3), torch.zeros(count)
        if kind == color.HUE:
            turn = torch.linspace(*TURN, count)
        else:
            factors[:, kind] = torch.linspace(*JITTER, count)
        always, never = torch.ones(count, dtype=torch.bool), torch.zeros(count, dtype=torch.bool)
        maps = color.jitter(torch.arange(4).expand(count, 4), factors, turn, applied=always, gray=never, channels=3)
        result = maps.apply(photo.contiguous(), torch.zeros(3))
        rows.append((name, (torch.cat([photo[:1], result]) * 255.0).round().clamp(0.0, 255.0).to(torch.uint8)))
    photo = photos[-1].expand(count, -1, -1, -1).float()
    matrix = geometry.blur_matrix(torch.linspace(*BLUR, count).numpy(), size=photo.shape[2])
    blurred = geometry.resample(photo, matrix, matrix).round()
    rows.append(("blur", torch.cat([photo[:1], blurred]).to(torch.uint8)))
    return rows


def bytes_of(views: Tensor) -> Tensor:
    """Normalized views as they would look."""
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (IMAGENET.mean, IMAGENET.std))
    return ((views * std + mean) * 255.0).round().clamp(0.0, 255.0).to(torch.uint8)


def sheet(rows: list[tuple[str, Tensor]], size: int) -> Image.Image:
    """All rows with their names."""
    step = size + GAP
    page = Image.new("RGB", (MARGIN + COLUMNS * step + GAP, len(rows) * step + GAP), "white")
    pen = ImageDraw.Draw(page)
    for y, (name, pictures) in enumerate(rows):
        pen.text((6, GAP + y * step + size // 2 - 7), name, fill="black", font=ImageFont.load_default(13))
        for x, picture in enumerate(pictures):
            tile = Image.fromarray(picture.permute(1, 2, 0).contiguous().numpy())
            page.paste(tile, (MARGIN + x * step, GAP + y * step))
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--photos", type=int, default=6)
    arguments = parser.parse_args()
    paths = sorted(path for path in arguments.folder.rglob("*") if path.suffix.lower() in {".jpg", ".jpeg", ".png"})
    size = arguments.size
    photos = []
    for path in paths[:: max(1, len(paths) // arguments.photos)][: arguments.photos]:
        photo = ImageOps.fit(Image.open(path).convert("RGB"), (size, size))
        flat = torch.frombuffer(bytearray(photo.tobytes()), dtype=torch.uint8)
        photos.append(flat.view(size, size, 3).permute(2, 0, 1).contiguous())
    sheet(rows_of(photos, size), size).save(arguments.output, quality=80)


if __name__ == "__main__":
    main()
