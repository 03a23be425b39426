"""A picture of groups: reliable images from the center outward, with their true classes.

    python benchmarks/group_sheet.py RUN GROUP [GROUP ...] --out sheet.jpg

The images need one folder per class, whose name is printed below each picture.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

from check_simulation import right_answers
from spice.data.originals import originals
from spice.runs import open_result

COLUMNS, SIDE, GAP, CAPTION, TITLE, TEXT = 10, 138, 6, 34, 38, 22


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("groups", type=int, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    height = TITLE + SIDE + CAPTION + GAP
    sheet = Image.new("RGB", (COLUMNS * (SIDE + GAP), len(given.groups) * height), "white")
    result = open_result(given.run)
    labels, right = result.labels, right_answers(result.labels, "folders")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=TEXT)
    for place, group in enumerate(given.groups):
        members = (labels.cluster == group) & labels.reliable
        chosen = np.flatnonzero(members)[np.argsort(labels.prototype_rank[members])]
        chosen = chosen[np.linspace(0, len(chosen) - 1, COLUMNS).astype(int)]
        title = f"group {group}: {members.sum()} reliable images, {right[members].mean():.0%} of them right"
        draw.text((2, place * height + 6), title, fill="black", font=font)
        with TemporaryDirectory() as scratch:
            names = [labels.path[row] for row in chosen]
            files = originals(result.manifest.source, names, run=given.run, extract_to=Path(scratch))
            for column, (file, name) in enumerate(zip(files, names, strict=True)):
                corner = column * (SIDE + GAP), place * height + TITLE
                with Image.open(file) as picture:
                    sheet.paste(ImageOps.fit(picture.convert("RGB"), (SIDE, SIDE)), corner)
                draw.text((corner[0] + 2, corner[1] + SIDE), name.split("/")[-2], fill="black", font=font)
    sheet.save(given.out, quality=85)


if __name__ == "__main__":
    main()
