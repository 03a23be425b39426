"""How good stage 1's features are after half an hour on a CPU, beside raw pixels.

    python benchmarks/features_quality.py digits
    python benchmarks/features_quality.py fashion --data ../shared/data
    python benchmarks/features_quality.py cifar10 --data ../shared/data

Labels are read for the scores at the end, and for nothing else. 5-NN: vote of the five nearest training images by
cosine, over the test images (digits, which has no test set: over all, each asked of the others). k-means: ten restarts
on l2-normalized features of the test images (digits: all), matched to classes one to one. Each also of whitened
features and pixels: their first 256 principal components, those of the training images, brought to one variance.
"""

import argparse
import io
import json
import logging
import tarfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits

from spice import presets
from spice.augment import Plain
from spice.data.images import InMemory
from spice.engine.run import Run
from spice.evaluate import accuracy
from spice.evaluate.probe import LabeledFeatures
from spice.models.backbone import Backbone
from spice.models.weights import save_network
from spice.neighbors import nearest
from spice.progress import LogProgress
from spice.settings import IMAGENET, IMAGENET_GRAY, FeatureSettings
from spice.stages.features.train import train_features
from spice.stages.kmeans import kmeans

Pair = tuple[NDArray[np.float32], NDArray[np.float32] | None]


class DataSet(NamedTuple):
    """Images to learn from; images to be asked about, where there are others; and, apart, the true labels."""

    train: InMemory
    test: InMemory | None
    train_labels: NDArray[np.int64]
    test_labels: NDArray[np.int64] | None
    settings: FeatureSettings


def digits(data: Path) -> DataSet:  # noqa: ARG001
    bunch = load_digits()
    small = torch.from_numpy(bunch.images).float().unsqueeze(1) * (255.0 / 16.0)  # (1797, 1, 8, 8)
    pixels = F.interpolate(small, scale_factor=2, mode="bilinear").round().byte()
    settings = presets.features_on_cpu(images=len(pixels), size=16, flip=False)
    return DataSet(InMemory(pixels), None, bunch.target.astype(np.int64), None, settings)


def fashion(data: Path) -> DataSet:
    with np.load(data / "fashion_mnist.npz") as file:
        train, test = (InMemory(torch.from_numpy(file[f"x_{part}"]).view(-1, 1, 28, 28)) for part in ("train", "test"))
        train_labels, test_labels = (file[f"y_{part}"].astype(np.int64) for part in ("train", "test"))
    return DataSet(train, test, train_labels, test_labels, presets.features_on_cpu(images=len(train), size=28))


def cifar10(data: Path) -> DataSet:
    images: dict[str, list[NDArray[np.uint8]]] = {"train": [], "test": []}
    names: dict[str, list[str]] = {"train": [], "test": []}
    with tarfile.open(data / "cifar10.tar.gz") as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None:
                _, part, name, _ = Path(member.name).parts[-4:]
                images[part].append(np.asarray(Image.open(io.BytesIO(file.read()))).transpose(2, 0, 1))
                names[part].append(name)
    classes = sorted(set(names["train"]))
    train, test = (InMemory(torch.from_numpy(np.stack(images[part]))) for part in ("train", "test"))
    train_labels, test_labels = (np.array([classes.index(name) for name in names[part]]) for part in ("train", "test"))
    return DataSet(train, test, train_labels, test_labels, presets.features_on_cpu(images=len(train), size=32))


def loaded(name: str, folder: Path) -> DataSet:
    return {"digits": digits, "fashion": fashion, "cifar10": cifar10}[name](folder)


@torch.no_grad()
def encode(network: Backbone, images: InMemory) -> NDArray[np.float32]:
    plain = Plain(FeatureSettings().augment, images.size, IMAGENET_GRAY if images.channels == 1 else IMAGENET)
    encoded: NDArray[np.float32] = torch.cat([network(plain(part)) for part in torch.split(images.pixels, 500)]).numpy()
    return encoded


def raw(images: InMemory) -> NDArray[np.float32]:
    flat: NDArray[np.float32] = images.pixels.flatten(1).float().div(255.0).numpy()
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


def scores(
    data: DataSet, train: NDArray[np.float32], test: NDArray[np.float32] | None, *, seed: int
) -> dict[str, float]:
    known = LabeledFeatures(train, data.train_labels)
    asked = None if test is None or data.test_labels is None else LabeledFeatures(test, data.test_labels)
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
    parser.add_argument("dataset", choices=("digits", "fashion", "cifar10"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--folder", type=Path, help="for checkpoints: a run that was stopped goes on")
    parser.add_argument("--save", type=Path, help="safetensors file for the trained network: an encoder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--settings", default="{}", help="JSON of feature settings to change")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    data = loaded(arguments.dataset, arguments.data)
    settings = FeatureSettings.model_validate(data.settings.model_dump() | json.loads(arguments.settings))
    print(settings.model_dump_json(exclude_defaults=True), flush=True)
    wall, cpu = time.perf_counter(), time.process_time()
    run = Run(seed=arguments.seed, folder=arguments.folder, progress=LogProgress(every_seconds=60.0))
    model = train_features(data.train, settings, run)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"trained in {wall / 60:.1f} min of wall clock, {cpu / 60:.1f} min of processor time (since the last start)")
    print(f"health: {model.health[-1]}")
    if arguments.save:
        save_network(arguments.save, model.network, model.card)
    sources: dict[str, Callable[[InMemory], NDArray[np.float32]]] = {
        "features": partial(encode, model.network),
        "raw pixels": raw,
    }
    for name, of in sources.items():
        plain = of(data.train), None if data.test is None else of(data.test)
        for rows, (train, test) in {name: plain, f"whitened {name}": whitened(*plain)}.items():
            for score, value in scores(data, train, test, seed=arguments.seed).items():
                print(f"{arguments.dataset}, seed {arguments.seed}, {rows}: {score} {value:.3f}", flush=True)


if __name__ == "__main__":
    main()
