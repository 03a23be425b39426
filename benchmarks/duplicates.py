"""Precision and recall of near-duplicates in a folder with changed copies: `spice duplicates` and CleanVision.

    python benchmarks/duplicates.py make FOLDER [--data ../shared/data/imagenette.tar] [--images 800] [--copied 150]
    spice cluster FOLDER -k 10 --out RUN
    python benchmarks/duplicates.py score FOLDER RUN    # pip install cleanvision, to compare with it

`make` writes photos from an archive and changed copies of some of them: resized to half, recompressed (JPEG quality
30), cropped by a tenth on each side, brightened, or mirrored. A pair of an image and its copy is a hit.
"""

import argparse
import tarfile
from collections.abc import Callable
from importlib.util import find_spec
from io import BytesIO
from itertools import combinations
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from spice.runs import open_result
from spice.runs.artifacts import NEIGHBORS, SIMILARITIES
from spice.trust.duplicates import similar_pairs

Pairs = set[frozenset[str]]


def _recompressed(image: Image.Image) -> Image.Image:
    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=30)
    return Image.open(buffer)


def _cropped(image: Image.Image) -> Image.Image:
    across, down = image.width // 10, image.height // 10
    return image.crop((across, down, image.width - across, image.height - down))


CHANGES: dict[str, Callable[[Image.Image], Image.Image]] = {
    "resized": lambda image: image.resize((image.width // 2, image.height // 2)),
    "recompressed": _recompressed,
    "cropped": _cropped,
    "brighter": lambda image: ImageEnhance.Brightness(image).enhance(1.3),
    "mirrored": ImageOps.mirror,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "score"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/imagenette.tar"))
    parser.add_argument("--images", type=int, default=800)
    parser.add_argument("--copied", type=int, default=150)
    given = parser.parse_args()
    if given.what == "make":
        _make(given.folder, given.data, given.images, given.copied)
    else:
        _score(given.folder, given.run)


def _make(folder: Path, data: Path, images: int, copied: int) -> None:
    folder.mkdir(parents=True)
    with tarfile.open(data) as archive:
        members = sorted((member for member in archive if member.isfile()), key=lambda member: member.name)
        chosen = np.random.default_rng(0).permutation(len(members))[:images]
        for number, place in enumerate(chosen.tolist()):
            opened = archive.extractfile(members[place])
            assert opened is not None
            content = opened.read()
            (folder / f"{number:04d}_original.jpg").write_bytes(content)
            if number < copied:
                name = list(CHANGES)[number % len(CHANGES)]
                changed = CHANGES[name](Image.open(BytesIO(content)).convert("RGB"))
                changed.save(folder / f"{number:04d}_{name}.jpg", quality=90)


def _score(folder: Path, run: Path) -> None:
    names = sorted(path.name for path in folder.iterdir())
    copies = {name: f"{name[:4]}_original.jpg" for name in names if not name.endswith("_original.jpg")}
    print(f"{'method':<24}{'pairs':>7}{'precision':>11}{'recall':>8}   recall by change: {', '.join(CHANGES)}")
    result = open_result(run)
    near, likeness = np.load(result.need(NEIGHBORS)), np.load(result.need(SIMILARITIES))
    for threshold in (0.90, 0.95, 0.97, 0.98):
        pairs = similar_pairs(near, likeness, threshold)
        ends = zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)
        found = {frozenset((result.labels.path[one], result.labels.path[two])) for one, two in ends}
        _show(f"similarity from {threshold}", found, copies)
    ours = zip(result.labels.path, result.labels.duplicate_of, strict=True)
    _show("spice duplicates", {frozenset((path, original)) for path, original in ours if original}, copies)
    if find_spec("cleanvision"):
        _show("CleanVision", _cleanvision(folder), copies)
    else:
        print("CleanVision             not installed")


def _cleanvision(folder: Path) -> Pairs:
    from cleanvision import Imagelab

    lab = Imagelab(data_path=str(folder), verbose=False)
    lab.find_issues({"near_duplicates": {}, "exact_duplicates": {}}, verbose=False)
    sets = lab.info["near_duplicates"]["sets"] + lab.info["exact_duplicates"]["sets"]
    return {frozenset(map(_name, pair)) for found in sets for pair in combinations(found, 2)}


def _name(path: object) -> str:
    return Path(str(path)).name


def _show(method: str, found: Pairs, copies: dict[str, str]) -> None:
    true = {frozenset(pair) for pair in copies.items()}
    hits = found & true
    by_change = []
    for change in CHANGES:
        of_change = {frozenset(pair) for pair in copies.items() if pair[0].endswith(f"_{change}.jpg")}
        by_change.append(f"{len(hits & of_change) / len(of_change):.2f}")
    precision = len(hits) / len(found) if found else np.nan
    print(f"{method:<24}{len(found):>7}{precision:>11.2f}{len(hits) / len(true):>8.2f}   {', '.join(by_change)}")


if __name__ == "__main__":
    main()
