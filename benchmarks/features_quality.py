"""How good stage 1's features are after half an hour on a CPU, beside raw pixels.

    python benchmarks/features_quality.py digits
    python benchmarks/features_quality.py fashion-mnist    (after `spice datasets get fashion-mnist`)
    python benchmarks/features_quality.py cifar10

Labels are read for the scores at the end, and for nothing else. 5-NN: vote of the five nearest training images by
cosine, over the test images (digits, which has no test set: over all, each asked of the others). k-means: ten restarts
on l2-normalized features of the test images (digits: all), matched to classes one to one. Each also of whitened
features and pixels: their first 256 principal components, those of the training images, brought to one variance.
"""

import argparse
import json
import logging
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from spice.benchmark.datasets import Part, load
from spice.data import ImageStore, ingest
from spice.engine.run import Run
from spice.evaluate import accuracy
from spice.evaluate.probe import LabeledFeatures
from spice.models.encoders import SCRATCH, TorchEncoder
from spice.models.weights import save_network
from spice.neighbors import nearest
from spice.presets import features_on_cpu
from spice.progress import LogProgress
from spice.settings import FeatureSettings
from spice.stages.encode import encode_plain
from spice.stages.features.train import FeatureModel, train_features
from spice.stages.kmeans import kmeans

Pair = tuple[NDArray[np.float32], NDArray[np.float32] | None]
SIZES = {"digits": 16, "fashion-mnist": 28, "cifar10": 32}  # pixels on a side


class Stored(NamedTuple):
    """Decoded images and, apart, their true labels."""

    images: ImageStore
    labels: NDArray[np.int64]


def stored(part: Part, size: int, folder: Path) -> Stored:
    images = ingest(part.images, size=size, folder=folder)
    return Stored(images, part.truth().labels[images.collection.numbers])


def encode(model: FeatureModel, images: ImageStore) -> NDArray[np.float32]:
    encoder = TorchEncoder(SCRATCH, model.network, model.card.normalization, size=images.size)
    encoded: NDArray[np.float32] = encode_plain(encoder, images).numpy()
    return encoded


def raw(images: ImageStore) -> NDArray[np.float32]:
    flat: NDArray[np.float32] = images.take(torch.arange(len(images))).flatten(1).float().div(255.0).numpy()
    return flat


def whitened(train: NDArray[np.float32], test: NDArray[np.float32] | None) -> Pair:
    """Both in the first 256 principal components of `train`, each of unit variance."""
    mean = train.mean(axis=0)
    variance, directions = np.linalg.eigh(np.cov((train - mean).T))  # smallest first
    basis = directions[:, -256:] / np.sqrt(np.maximum(variance[-256:], 1e-5 * variance[-1]))

    def of(rows: NDArray[np.float32]) -> NDArray[np.float32]:
        projected: NDArray[np.float32] = ((rows - mean) @ basis).astype(np.float32)
        return projected

    return of(train), None if test is None else of(test)


def scores(known: LabeledFeatures, asked: LabeledFeatures | None, *, seed: int) -> dict[str, float]:
    clustered = asked or known
    clusters = kmeans(np.asarray(clustered.features, dtype=np.float32), len(set(known.labels.tolist())), seed=seed)
    return {"5-NN": neighbors_accuracy(known, asked), "k-means ACC": accuracy(clusters, clustered.labels)}


def neighbors_accuracy(known: LabeledFeatures, asked: LabeledFeatures | None, *, neighbors: int = 5) -> float:
    """Share of `asked` (or of `known`, each asked of all the others) whose nearest by cosine vote for their class."""
    queries = None if asked is None else torch.as_tensor(asked.features)
    index = nearest(torch.as_tensor(known.features), neighbors, queries=queries).index  # (N, S)
    ballots = torch.as_tensor(known.labels)[index]  # (N, S)
    # A little more for the nearer ones: together less than one vote, so that only ties are decided by it.
    weights = 1 + 0.5 ** torch.arange(1, neighbors + 1, dtype=torch.float64)  # (S,)
    votes = torch.zeros(len(index), int(known.labels.max()) + 1, dtype=torch.float64)  # (N, C)
    votes.scatter_add_(1, ballots, weights.expand_as(ballots))
    return float((votes.argmax(dim=1).numpy() == (asked or known).labels).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=list(SIZES))
    parser.add_argument("--folder", type=Path, help="for checkpoints: a run that was stopped goes on")
    parser.add_argument("--save", type=Path, help="safetensors file for the trained network: an encoder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--settings", default="{}", help="JSON of feature settings to change")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    data, size, scratch = load(arguments.dataset), SIZES[arguments.dataset], tempfile.TemporaryDirectory()
    train = stored(data.train, size, Path(scratch.name) / "train")
    test = None if data.test is None else stored(data.test, size, Path(scratch.name) / "test")
    usual = features_on_cpu(images=len(train.images), size=size, flip=arguments.dataset != "digits")
    settings = FeatureSettings.model_validate(usual.model_dump() | json.loads(arguments.settings))
    print(settings.model_dump_json(exclude_defaults=True), flush=True)
    wall, cpu = time.perf_counter(), time.process_time()
    run = Run(seed=arguments.seed, folder=arguments.folder, progress=LogProgress(every_seconds=60.0))
    model = train_features(train.images, settings, run)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"trained in {wall / 60:.1f} min of wall clock, {cpu / 60:.1f} min of processor time (since the last start)")
    print(f"health: {model.health[-1]}")
    if arguments.save:
        save_network(arguments.save, model.network, model.card)
    sources: dict[str, Callable[[ImageStore], NDArray[np.float32]]] = {
        "features": partial(encode, model),
        "raw pixels": raw,
    }
    for name, of in sources.items():
        plain = of(train.images), None if test is None else of(test.images)
        for rows, (learned, tested) in {name: plain, f"whitened {name}": whitened(*plain)}.items():
            known = LabeledFeatures(learned, train.labels)
            asked = None if test is None or tested is None else LabeledFeatures(tested, test.labels)
            for score, value in scores(known, asked, seed=arguments.seed).items():
                print(f"{arguments.dataset}, seed {arguments.seed}, {rows}: {score} {value:.3f}", flush=True)
    scratch.cleanup()


if __name__ == "__main__":
    main()
