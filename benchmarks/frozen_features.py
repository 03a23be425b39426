"""SPICE's second stage beside what people use, on plain features of seven collections: the table of docs/results.

    python benchmarks/frozen_features.py encode  --data ../shared/data --folder /tmp/frozen   (once, about 25 minutes)
    python benchmarks/frozen_features.py compare --folder /tmp/frozen --seeds 0-4 [--methods SPICE k-means]
    python benchmarks/frozen_features.py uneven  --folder /tmp/frozen --seeds 0-2

All methods get the same features, and SPICE makes its views from them by adding noise: no image is seen twice. Of
larger collections 3,000 images are drawn. Scores are kept, so a stopped run resumes. True labels are read by `score`
alone.
"""

import argparse
import hashlib
import json
import tarfile
import tempfile
import time
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from spice.benchmark.rivals import RIVALS, fit
from spice.data import ingest
from spice.engine.run import Run
from spice.errors import SpiceWarning
from spice.evaluate import score
from spice.evaluate.truth import from_folders
from spice.models.encoders import Encoder, load_encoder, with_precision
from spice.presets import standard_heads
from spice.settings import HeadSettings, ViewSettings
from spice.stages.encode import encode_plain
from spice.stages.heads.train import train_heads
from spice.stages.views import perturb_features

# name: file, and the member to read
COLLECTIONS = {
    "imagenette": ("imagenette.tar", "imagenette"),
    "fruits": ("fruits.tar", "fruits"),
    "cifar10-test": ("cifar10.tar.gz", "cifar10/test"),
    "fashion-test": ("fashion_mnist.npz", "x_test"),
    "trash": ("trash.tar", "trash"),
    "flowers": ("flowers.tar", "flowers"),
    "caltech": ("caltech.tar", "caltech"),
}
IMAGES = 3_000
SPICE = "SPICE"
USUAL = ("k-means", "Ward on PCA", "spectral", "UMAP + k-means", "UMAP + Gaussian mixture", "Leiden")
NOT_RANDOM = ("Ward on PCA",)
COLUMNS = ("ACC", "balanced ACC", "NMI", "ARI")
# Uneven draws: classes from the largest to a tenth of it, in an order drawn anew for every seed.
UNEVEN, RATIO, LARGEST = ("imagenette", "fruits", "cifar10-test"), 10, 600
Truth = NDArray[np.int64]
Features = NDArray[np.float32]


def encode(data: Path, folder: Path, name: str, encoder: Encoder) -> None:
    """Plain features and true labels of a collection, `NAME.npz`; prints images per second."""
    file, member = COLLECTIONS[name]
    with tempfile.TemporaryDirectory() as unpacked:
        images = Path(unpacked) / "images"
        if file.endswith(".npz"):
            arrays = np.load(data / file)
            store = ingest(arrays[member], size=encoder.size, folder=images)
            truth = arrays[member.replace("x", "y")][store.collection.numbers]
        else:
            with tarfile.open(data / file) as archive:
                archive.extractall(unpacked, filter="data")
            store = ingest(str(Path(unpacked) / member), size=encoder.size, folder=images)
            truth = from_folders(store.collection.paths).labels
        encode_plain(encoder, store, count=64)  # opens the network
        begun = time.monotonic()
        features = encode_plain(encoder, store).numpy()
        print(f"{encoder.name} at {encoder.size} px, {name}: {len(truth) / (time.monotonic() - begun):.0f} images/s")
        np.savez(folder / f"{name}.npz", features=features, truth=truth)


def opened(folder: Path, name: str, images: int | None = IMAGES) -> tuple[Features, Truth]:
    """Features and true labels of at most so many images."""
    with np.load(folder / f"{name}.npz") as kept:
        features, truth = kept["features"].astype(np.float32), np.unique(kept["truth"], return_inverse=True)[1]
    drawn = np.sort(np.random.default_rng(0).permutation(len(features))[:images])
    return features[drawn], truth[drawn]


def uneven(folder: Path, name: str, seed: int) -> tuple[Features, Truth]:
    """A draw with classes of geometrically falling size, 10 : 1."""
    features, truth = opened(folder, name, images=None)
    random, classes = np.random.default_rng(seed), int(truth.max()) + 1
    largest = min(LARGEST, int(np.bincount(truth).min()))
    kept = [
        random.permutation(np.flatnonzero(truth == label))[: round(largest * RATIO ** (-rank / (classes - 1)))]
        for rank, label in enumerate(random.permutation(classes))
    ]
    drawn = np.sort(np.concatenate(kept))
    return features[drawn], truth[drawn]


def spice(features: Features, settings: HeadSettings, seed: int) -> NDArray[np.integer]:
    """Labels by the selected head."""
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore", SpiceWarning)
        views = perturb_features(features, ViewSettings(), Run(seed=seed, folder=Path(place)))
        trained = train_heads(views, settings, Run(seed=seed))
    with torch.no_grad():
        labels: NDArray[np.integer] = trained.head(torch.from_numpy(features)).argmax(dim=1).numpy()
    return labels


def measured(kept: Path, what: str, seed: int, data: tuple[Features, Truth], settings: HeadSettings) -> list[float]:
    """ACC, balanced ACC, NMI, ARI and the number of empty clusters; kept under the name of the method and the data."""
    features, truth = data
    about = f"{what} {settings.model_dump_json() if what not in RIVALS else ''} {seed} {len(truth)} {features[0, :9]}"
    path = kept / hashlib.blake2b(about.encode(), digest_size=8).hexdigest()
    if not path.exists():
        clusters = int(truth.max()) + 1
        labels = fit(what, features, clusters, seed=seed) if what in RIVALS else spice(features, settings, seed)
        kept.mkdir(exist_ok=True)
        path.write_text(json.dumps([*score(labels, truth), clusters - len(np.unique(labels))]))
    return [float(figure) for figure in json.loads(path.read_text())]


def compare(folder: Path, names: Iterable[str], methods: list[str], seeds: list[int]) -> None:
    """One table per score: methods by collections, mean over seeds; then the worst seed, and empty clusters."""
    figures: dict[tuple[str, str], NDArray[np.float64]] = {}
    for method in methods:
        for name in names:
            features, truth = opened(folder, name)
            settings = standard_heads(int(truth.max()) + 1)
            again = seeds[:1] if method in NOT_RANDOM else seeds
            rows = [measured(folder / "scores", method, seed, (features, truth), settings) for seed in again]
            figures[method, name] = np.array(rows)  # (seeds, 5)
    for place, column in enumerate(COLUMNS):
        table(column, names, {m: [figures[m, n][:, place].mean() for n in names] for m in methods})
    table("ACC, worst seed", names, {m: [figures[m, n][:, 0].min() for n in names] for m in methods})
    table("empty clusters, most", names, {m: [figures[m, n][:, 4].max() for n in names] for m in methods})


def compare_sizes(folder: Path, seeds: list[int]) -> None:
    """Rules for the sizes of clusters on uneven draws."""
    rules: dict[str, dict[str, object]] = {"even": {"sizes": "even"}, "nearest": {"sizes": "nearest"}, "found": {}}
    figures: dict[str, list[NDArray[np.float64]]] = {rule: [] for rule in rules}
    for name in UNEVEN:
        for rule, changes in rules.items():
            rows = []
            for seed in seeds:
                features, truth = uneven(folder, name, seed)
                settings = standard_heads(int(truth.max()) + 1).model_copy(update=changes)
                rows.append(measured(folder / "scores", f"{SPICE} {rule}", seed, (features, truth), settings))
            figures[rule].append(np.mean(rows, axis=0))
    for place, column in enumerate(COLUMNS):
        table(f"10 : 1, {column}", UNEVEN, {rule: [row[place] for row in rows] for rule, rows in figures.items()})


def table(title: str, names: Iterable[str], rows: dict[str, list[float]]) -> None:
    columns = [title, *names, "mean"]
    print(f"\n| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for method, values in rows.items():
        print("| " + " | ".join([method, *(f"{value:.3f}" for value in [*values, float(np.mean(values))])]) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["encode", "compare", "uneven"])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--encoder", default="lite0")
    parser.add_argument("--size", type=int, help="pixels; default: the encoder's own")
    parser.add_argument("--precision", choices=["float32", "int8"], default="float32", help="of the encoder")
    parser.add_argument("--collections", nargs="+", choices=list(COLLECTIONS), default=list(COLLECTIONS))
    parser.add_argument("--methods", nargs="+", choices=[*RIVALS, SPICE], default=[*USUAL, SPICE])
    parser.add_argument("--seeds", default="0-4", help="first and last, or one")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    seeds = list(range(int(first), int(last or first) + 1))
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.what == "encode":
        encoder = with_precision(load_encoder(options.encoder, size=options.size), options.precision)
        for name in options.collections:
            encode(options.data, options.folder, name, encoder)
    elif options.what == "compare":
        compare(options.folder, options.collections, options.methods, seeds)
    else:
        compare_sizes(options.folder, seeds)


if __name__ == "__main__":
    main()
