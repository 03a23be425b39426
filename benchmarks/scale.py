"""Large collections: how many images heads need, and the time and memory for up to a million images.

    python benchmarks/scale.py sample  --folder FEATURES --seeds 0-2 [--images 1000 2000 5000 10000]
    python benchmarks/scale.py sample  --mixture 200000 --images 5000 10000 20000 40000
    python benchmarks/scale.py vectors --count 1000000 --place /tmp/scale
    python benchmarks/scale.py photos  --count 200000 --place /tmp/scale --originals FOLDER ...
    python benchmarks/scale.py engines --images FOLDER
    python benchmarks/scale.py nodes   --moments 20
    python benchmarks/scale.py kills   --engine ray --kills 10

`sample` trains heads on some of the images and labels all of them; FEATURES contains the files of
`benchmarks/frozen_features.py encode`. `vectors` runs `spice cluster` on a synthetic mixture and prints the time of
every step, the peak memory and the largest file. `photos` does the same with random crops of the images in folders, and
first prints what `--plan` predicts. `engines` reads and embeds a folder in this process, then with Ray on this machine.
`nodes` removes one of two nodes of a Ray cluster at several moments. `kills` kills the command itself and resumes it.
Both end with an error if features or labels differ. True labels are used only to score.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import arange, from_numpy

from memory import anonymous
from scale_kills import killed_commands, lost_nodes
from spice.engine.run import Run
from spice.errors import SpiceWarning
from spice.evaluate import score
from spice.models.encoders import load_encoder
from spice.pipeline import on_ray
from spice.pipeline.steps.scan import read_embedded, read_inputs
from spice.presets import standard_heads
from spice.settings import ViewSettings
from spice.stages.encode import BATCH, encode_plain, probabilities
from spice.stages.heads.train import train_heads
from spice.stages.views import perturb_features
from stored import Features, Truth, read_features, seed_range

WIDTH, GROUPS = 256, 50
RANK, CENTER, SPREAD, NOISE = 16, 0.45, 0.25, 0.3
ROWS = 50_000  # generated at once
# Photos: JPEGs of random crops of real images.
SIDES = 160, 224  # pixels
SHARE = 0.5, 0.9  # of an original's sides that a crop keeps
QUALITY = 85
PER_FOLDER = 1000
ENDINGS = (".jpg", ".jpeg", ".png")
SHORTEST = 150  # side of an original in pixels; crops of a smaller one would be blurred


def mixture(path: Path, count: int) -> tuple[Features, Truth]:
    """Fifty groups of uneven size, each with its own sixteen directions of variance, and noise in all 256."""
    random = np.random.default_rng(0)
    centers = random.normal(size=(GROUPS, WIDTH)).astype(np.float32) * CENTER
    truth = random.choice(GROUPS, count, p=random.dirichlet(np.full(GROUPS, 3.0)))
    along = random.normal(size=(GROUPS, RANK, WIDTH)).astype(np.float32) * SPREAD
    features = np.lib.format.open_memmap(path, "w+", np.float32, (count, WIDTH))
    for start in range(0, count, ROWS):
        group = truth[start : start + ROWS]
        for number in range(GROUPS):
            rows = np.flatnonzero(group == number)
            inside = random.normal(size=(len(rows), RANK)).astype(np.float32) @ along[number]
            noise = NOISE * random.normal(size=(len(rows), WIDTH)).astype(np.float32)
            features[start + rows] = centers[number] + inside + noise
    features.flush()
    return features, truth


def learned_from(features: Features, clusters: int, images: int, seed: int) -> tuple[NDArray[np.int64], float]:
    """Labels of all images by a head trained on some of them, and the processor seconds of the training."""
    rows = np.sort(np.random.default_rng(seed).permutation(len(features))[:images])
    started = time.process_time()
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore", SpiceWarning)
        views = perturb_features(np.asarray(features[rows]), ViewSettings(), Run(seed=seed, folder=Path(place)))
        trained = train_heads(views, standard_heads(clusters), Run(seed=seed))
    seconds = time.process_time() - started
    return probabilities(trained.head, from_numpy(features)).argmax(dim=1).numpy(), seconds


def sample(collections: dict[str, tuple[Features, Truth]], sizes: list[int], seeds: list[int]) -> None:
    print(
        "| collection | images | groups | learned from | ACC | NMI | processor |\n|---|---:|---:|---:|---:|---:|---:|"
    )
    for name, (features, truth) in collections.items():
        clusters = len(np.unique(truth))
        for size in [size for size in sizes if size <= len(features)]:
            answers = [learned_from(features, clusters, size, seed) for seed in seeds]
            scores = [score(labels, truth) for labels, _ in answers]
            acc, nmi = ([getattr(found, kind) for found in scores] for kind in ("acc", "nmi"))
            seconds = np.mean([spent for _, spent in answers])
            print(
                f"| {name} | {len(features):,} | {clusters} | {size:,} | {np.mean(acc):.3f} ± {np.std(acc):.3f} "
                f"| {np.mean(nmi):.3f} ± {np.std(nmi):.3f} | {seconds:.0f} s |",
                flush=True,
            )


def vectors(count: int, place: Path) -> None:
    """Run the whole command on a synthetic mixture."""
    place.mkdir(parents=True, exist_ok=True)
    source, out = place / f"mixture-{count}.npy", place / f"mixture-{count}.spice"
    truth = np.load(place / f"truth-{count}.npy") if source.exists() else mixture(source, count)[1]
    np.save(place / f"truth-{count}.npy", truth)
    print(f"{count:,} vectors of {WIDTH} numbers, K = {GROUPS}")
    _describe(out, _measured(["cluster", str(source), "-k", str(GROUPS), "--out", str(out), "--no-open"]))
    import pyarrow.parquet as pq

    labels = pq.read_table(out / "labels.parquet", columns=["path", "cluster", "reliable", "chance"])
    rows = labels["path"].to_numpy().astype(np.int64)
    right = score(labels["cluster"].to_numpy(), truth[rows])
    print(f"reliable {labels['reliable'].to_numpy().mean():.3f}, ACC {right.acc:.3f}, NMI {right.nmi:.3f}")


def photos(count: int, place: Path, originals: list[Path]) -> None:
    """Print the prediction of `--plan`, then run the whole command on random crops of real images."""
    source, out = place / f"photos-{count}", place / f"photos-{count}.spice"
    make_photos(originals, source, count)
    arguments = ["cluster", str(source), "-k", str(GROUPS), "--preset", "quick"]
    subprocess.run([sys.executable, "-m", "spice", *arguments, "--plan"], check=True)
    _describe(out, _measured([*arguments, "--out", str(out), "--no-open"]))


def make_photos(originals: list[Path], folder: Path, count: int) -> None:
    """Write `count` random crops of the images in `originals`, without those that are already there.

    A crop depends only on its number and on the originals.
    """
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


class Measured(NamedTuple):
    """Time and memory of a command."""

    seconds: float
    processor: float
    peak: float  # bytes in memory, mapped files included
    own: float  # peak anonymous memory in bytes, which `--plan` predicts


def _measured(arguments: list[str]) -> Measured:
    started = time.monotonic()
    child = subprocess.Popen([sys.executable, "-m", "spice", *arguments], stdout=subprocess.DEVNULL)
    ended, own = 0, 0
    while not ended:
        own = max(own, anonymous(child.pid))
        time.sleep(0.05)
        ended, status, used = os.wait4(child.pid, os.WNOHANG)
    assert status == 0, f"the command ended with {status}"
    return Measured(time.monotonic() - started, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, own)


def _describe(out: Path, took: Measured) -> None:
    """Print the steps of a finished run, memory and disk space."""
    print("\n| step | seconds | processor |\n|---|---:|---:|")
    records = [json.loads(path.read_text()) for path in out.rglob("*.json")]
    for record in sorted((one for one in records if "cpu_seconds" in one), key=lambda one: one["finished"]):
        print(f"| {record['step']} | {record['seconds']:.0f} | {record['cpu_seconds']:.0f} |")
    print(f"| whole command | {took.seconds:.0f} | {took.processor:.0f} |\n")
    files = {path: path.stat().st_size for path in out.rglob("*") if path.is_file() and not path.is_symlink()}
    largest = max(files, key=lambda path: files[path])
    print(f"peak memory {took.own / 1e9:.2f} GB, with mapped files {took.peak / 1e9:.2f} GB")
    print(f"run folder {sum(files.values()) / 1e9:.2f} GB in {len(files):,} files")
    print(f"largest file {largest.name} {files[largest] / 1e9:.2f} GB; page {_page(out) / 1e6:.1f} MB", flush=True)


def engines(images: str, size: int = 160, rounds: int = 2) -> None:
    """Print images per second: of this process, of Ray with its start, and of Ray after the first answer."""
    encoder = load_encoder("lite0", size=size)
    print("| this process | Ray | Ray, running | same features |\n|---:|---:|---:|---|")
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as place:
            started = time.monotonic()
            store = read_inputs(images, Path(place), size=size, run=Run()).store
            assert store is not None
            features = encode_plain(encoder, store)
            alone = time.monotonic() - started
        answered: list[float] = []
        usual = on_ray._answers

        def watched(*given: Any, usual: Any = usual, answered: list[float] = answered) -> Iterator[on_ray.Answer]:
            for answer in usual(*given):
                answered.append(time.monotonic())
                yield answer

        setattr(on_ray, "_answers", watched)  # noqa: B010
        with tempfile.TemporaryDirectory() as place:
            started = time.monotonic()
            found = read_embedded(images, Path(place), encoder=encoder, address=None, run=Run()).embedded
            ended, count = time.monotonic(), len(features)
            assert found is not None
            same = bool((found.take(arange(count)) == features).all())
        on_ray._answers = usual
        running = (count - BATCH) / (ended - answered[0])
        print(f"| {count / alone:.0f} | {count / (ended - started):.0f} | {running:.0f} | {same} |", flush=True)


def _page(out: Path) -> int:
    return (out / "report.html").stat().st_size


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    curve = commands.add_parser("sample")
    curve.add_argument("--folder", type=Path)
    curve.add_argument("--names", nargs="*")
    curve.add_argument("--mixture", type=int)
    curve.add_argument("--images", type=int, nargs="+", default=[1000, 2000, 5000, 10_000])
    curve.add_argument("--seeds", type=seed_range, default=[0])
    whole = commands.add_parser("vectors")
    whole.add_argument("--count", type=int, default=1_000_000)
    whole.add_argument("--place", type=Path, required=True)
    real = commands.add_parser("photos")
    real.add_argument("--count", type=int, default=200_000)
    real.add_argument("--place", type=Path, required=True)
    real.add_argument("--originals", type=Path, nargs="+", required=True)
    both = commands.add_parser("engines")
    both.add_argument("--images", required=True)
    nodes = commands.add_parser("nodes")
    nodes.add_argument("--moments", type=int, default=20)
    nodes.add_argument(
        "--phase", type=float, default=0.5, help="of the first moment, as a fraction of the time between two"
    )
    killed = commands.add_parser("kills")
    killed.add_argument("--engine", choices=["local", "ray"], required=True)
    killed.add_argument("--kills", type=int, default=12)
    killed.add_argument("--seed", type=int, default=0, help="seed of the moments")
    for parts in (nodes, killed):
        parts.add_argument("--count", type=int, default=1500, help="images")
    return parser


def main() -> None:
    options = _parser().parse_args()
    match options.command:
        case "engines":
            engines(options.images)
        case "vectors":
            vectors(options.count, options.place)
        case "photos":
            photos(options.count, options.place, options.originals)
        case "nodes":
            sys.exit(lost_nodes(options.moments, options.count, options.phase))
        case "kills":
            sys.exit(killed_commands(options.engine, options.kills, options.count, options.seed))
        case _:
            _sample(options)


def _sample(options: argparse.Namespace) -> None:
    collections: dict[str, tuple[Features, Truth]] = {}
    if options.folder is not None:
        for path in sorted(options.folder.glob("*.npz")):
            if options.names is None or path.stem in options.names:
                collections[path.stem] = read_features(path, images=None)
    with tempfile.TemporaryDirectory() as place:
        if options.mixture is not None:
            collections["mixture"] = mixture(Path(place) / "mixture.npy", options.mixture)
        sample(collections, options.images, options.seeds)


if __name__ == "__main__":
    main()
