"""SPICE's second stage and common methods on plain features of seven collections: the tables of docs/results.md.

    python benchmarks/frozen_features.py encode  --data ../shared/data --folder /tmp/frozen   (once, about 25 minutes)
    python benchmarks/frozen_features.py compare --folder /tmp/frozen --seeds 0-4 [--methods SPICE k-means]
    python benchmarks/frozen_features.py uneven  --folder /tmp/frozen --seeds 0-2

All methods get the same features; SPICE makes its views by adding noise to them. From larger collections, 3,000 images
are sampled. Scores are saved, so a stopped run resumes. True labels are used only to score, and to sample uneven
collections.
"""

import argparse
import hashlib
import json
import tempfile
import time
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from spice.benchmark.rivals import RIVALS, fit
from spice.engine.run import Run
from spice.errors import SpiceWarning
from spice.evaluate import score
from spice.models.encoders import Encoder, load_encoder, with_precision
from spice.presets import standard_heads
from spice.settings import HeadSettings, ViewSettings
from spice.stages.encode import encode_plain
from spice.stages.heads.train import train_heads
from spice.stages.views import perturb_features
from stored import COLLECTIONS, Features, Truth, decode, header, read_features, row, seed_range

SPICE = "SPICE"
USUAL = ("k-means", "Ward on PCA", "spectral", "UMAP + k-means", "UMAP + Gaussian mixture", "Leiden")
NOT_RANDOM = ("Ward on PCA",)
COLUMNS = ("ACC", "balanced ACC", "NMI", "ARI")
# Uneven samples: class sizes fall from the largest to a tenth of it, in a random order for every seed.
UNEVEN, RATIO, LARGEST = ("imagenette", "fruits", "cifar10-test"), 10, 600


def encode(data: Path, folder: Path, name: str, encoder: Encoder) -> None:
    """Save plain features and true labels of a collection as `NAME.npz`; print images per second."""
    with tempfile.TemporaryDirectory() as place:
        store, truth, classes = decode(data, name, Path(place), size=encoder.size)
        encode_plain(encoder, store, count=64)  # loads the network
        begun = time.monotonic()
        features = encode_plain(encoder, store).numpy()
        print(f"{encoder.name} at {encoder.size} px, {name}: {len(truth) / (time.monotonic() - begun):.0f} images/s")
        np.savez(folder / f"{name}.npz", features=features, truth=truth, classes=np.array(classes))


def uneven(folder: Path, name: str, seed: int) -> tuple[Features, Truth]:
    """A sample whose class sizes fall geometrically, 10 : 1."""
    features, truth = read_features(folder / f"{name}.npz", images=None)
    random, classes = np.random.default_rng(seed), int(truth.max()) + 1
    largest = min(LARGEST, int(np.bincount(truth).min()))
    kept = [
        random.permutation(np.flatnonzero(truth == label))[: round(largest * RATIO ** (-rank / (classes - 1)))]
        for rank, label in enumerate(random.permutation(classes))
    ]
    drawn = np.sort(np.concatenate(kept))
    return features[drawn], truth[drawn]


def spice(features: Features, settings: HeadSettings, seed: int) -> NDArray[np.integer]:
    """Labels by the best head."""
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore", SpiceWarning)
        views = perturb_features(features, ViewSettings(), Run(seed=seed, folder=Path(place)))
        trained = train_heads(views, settings, Run(seed=seed))
    with torch.no_grad():
        labels: NDArray[np.integer] = trained.head(torch.from_numpy(features)).argmax(dim=1).numpy()
    return labels


def measured(kept: Path, what: str, seed: int, data: tuple[Features, Truth], settings: HeadSettings) -> list[float]:
    """ACC, balanced ACC, NMI, ARI and the number of empty clusters; saved by method and data."""
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
    """A table per score, of methods by collections: means over seeds, the worst seed, and empty clusters."""
    figures: dict[tuple[str, str], NDArray[np.float64]] = {}
    for method in methods:
        for name in names:
            features, truth = read_features(folder / f"{name}.npz")
            settings = standard_heads(int(truth.max()) + 1)
            again = seeds[:1] if method in NOT_RANDOM else seeds
            rows = [measured(folder / "scores", method, seed, (features, truth), settings) for seed in again]
            figures[method, name] = np.array(rows)  # (seeds, 5)
    for place, column in enumerate(COLUMNS):
        table(column, names, {m: [figures[m, n][:, place].mean() for n in names] for m in methods})
    table("ACC, worst seed", names, {m: [figures[m, n][:, 0].min() for n in names] for m in methods})
    table("empty clusters, most", names, {m: [figures[m, n][:, 4].max() for n in names] for m in methods})


def compare_sizes(folder: Path, seeds: list[int]) -> None:
    """Compare rules for the sizes of clusters on uneven samples."""
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
    header(title, *names, "mean")
    for method, values in rows.items():
        row(method, [*values, float(np.mean(values))])


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
    parser.add_argument("--seeds", type=seed_range, default="0-4", help="first and last, or one")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.what == "encode":
        encoder = with_precision(load_encoder(options.encoder, size=options.size), options.precision)
        for name in options.collections:
            encode(options.data, options.folder, name, encoder)
    elif options.what == "compare":
        compare(options.folder, options.collections, options.methods, options.seeds)
    else:
        compare_sizes(options.folder, options.seeds)


if __name__ == "__main__":
    main()
