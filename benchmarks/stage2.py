"""The second stage on real collections: against its rivals, and its ablations. Prints tables of docs/lab-notes.

    python benchmarks/stage2.py views    --data ../shared/data --folder /tmp/stage2      (encode once, about 15 minutes)
    python benchmarks/stage2.py views    --folder /tmp/own --collections cifar10-test --encoder trained.safetensors
    python benchmarks/stage2.py compare  --folder /tmp/stage2 [--collections imagenette fruits] [--rivals all]
    python benchmarks/stage2.py ablation --folder /tmp/stage2
    python benchmarks/stage2.py choices  --folder /tmp/stage2

Labels are read by the last line of each measurement alone: nothing is trained, selected or stopped by them. Seconds are
processor seconds, so that other work on the machine disturbs them little; with OMP_NUM_THREADS=1, those of one core.
"""

import argparse
import hashlib
import itertools
import json
import tarfile
import tempfile
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from spice.benchmark.rivals import RIVALS, fit
from spice.data import Collection as Listing
from spice.data import ImageStore, ingest
from spice.engine.run import Run
from spice.errors import SpiceWarning
from spice.evaluate import score
from spice.evaluate.truth import from_folders
from spice.models.encoders import load_encoder
from spice.pipeline.execute import Execution
from spice.pipeline.work import Inputs
from spice.presets import standard, standard_heads
from spice.progress import Logged
from spice.runs import Result, RunFolder, open_result
from spice.settings import HeadSettings, JointSettings, RunSettings
from spice.stages.heads.algorithm_1 import TrainedHeads
from spice.stages.heads.train import train_heads
from spice.stages.views import Views, open_views

# name: file, member to read, size in pixels
COLLECTIONS = {
    "imagenette": ("imagenette.tar", "imagenette", 160),
    "fruits": ("fruits.tar", "fruits", 160),
    "cifar10-test": ("cifar10.tar.gz", "cifar10/test", 96),
    "fashion-test": ("fashion_mnist.npz", "x_test", 96),
}
SEEDS = range(5)
SPICE = "SPICE-s, standard"
Labels = NDArray[np.int32]


@dataclass(frozen=True)
class Collection:
    """A collection decoded by `views` and, for the final score, its true labels. Its results share one run folder."""

    place: Path
    encoder: str
    size: int
    truth: NDArray[np.int64]

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def clusters(self) -> int:
        return int(self.truth.max()) + 1

    @cached_property
    def views(self) -> Views:
        execution = self.execution(self.settings())
        execution.ensure("views")
        return open_views(execution.work.folders["views"])

    def settings(self, *, seed: int = 0, flip: bool = True, joint: JointSettings | None = None) -> RunSettings:
        """Those of `spice cluster`, with the same views for all seeds."""
        usual = standard(clusters=self.clusters, encoder=self.encoder, size=self.size, flip=flip, seed=seed)
        return usual.model_copy(update={"joint": joint, "features_seed": 0})

    def execution(self, settings: RunSettings) -> Execution:
        store = ImageStore(self.place / "images", Listing.load(self.place / "images"), self.size)
        (self.place / "run").mkdir(exist_ok=True)
        folder = RunFolder.open_or_create(self.place / "run", source=None)
        encoder = load_encoder(self.encoder, size=self.size)
        run = Run(settings.seed, progress=Logged(every_seconds=30.0))
        return Execution(folder, settings, Inputs(store.collection, store), encoder, run, page=False)

    def result(self, settings: RunSettings) -> Result:
        """The finished result with these settings; steps that are finished are not run again."""
        self.execution(settings).carry_out(None, "joint", redo=False)
        return open_result(self.place / "run")


def make_views(data: Path, place: Path, encoder: str, pixels: int | None) -> None:
    """Decode a collection, read its true labels, and encode its views."""
    file, member, usual = COLLECTIONS[place.name]
    size = load_encoder(encoder, size=pixels or (usual if encoder == "lite0" else None)).size
    with tempfile.TemporaryDirectory() as unpacked:
        if file.endswith(".npz"):
            arrays = np.load(data / file)
            store = ingest(arrays[member], size=size, folder=place / "images")
            truth = arrays[member.replace("x", "y")][store.collection.numbers]
        else:
            with tarfile.open(data / file) as archive:
                archive.extractall(unpacked, filter="data")
            store = ingest(str(Path(unpacked) / member), size=size, folder=place / "images")
            truth = from_folders(store.collection.paths).labels
    np.save(place / "truth.npy", truth)
    (place / "encoder.json").write_text(json.dumps([encoder, size]))
    _ = opened(place.parent, place.name).views


def opened(folder: Path, name: str) -> Collection:
    place = folder / name
    encoder, size = json.loads((place / "encoder.json").read_text())
    return Collection(place, encoder, size, np.load(place / "truth.npy").astype(np.int64))


def head_labels(trained: TrainedHeads, views: Views) -> list[Labels]:
    """Of the selected head, then of every head after the last epoch."""
    plain = torch.from_numpy(np.array(views.plain, dtype=np.float32))
    seen = plain if trained.components is None else (plain - trained.components.mean) @ trained.components.basis
    with torch.no_grad():
        selected = trained.head(plain).argmax(dim=1)
        every = trained.heads(seen).argmax(dim=2)
    return [labels.int().numpy() for labels in (selected, *every)]


def trained_quietly(views: Views, settings: HeadSettings, seed: int) -> TrainedHeads:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpiceWarning)
        return train_heads(views, settings, Run(seed=seed))


def measure(collection: Collection, settings: HeadSettings, seeds: Iterable[int] = SEEDS) -> dict[str, float]:
    """ACC over seeds, and what is seen without labels: loss, distinct share, agreement of heads, stability of seeds."""
    runs, selected, everyone, seconds = [], [], [], []
    for seed in seeds:
        started = time.process_time()
        trained = trained_quietly(collection.views, settings, seed)
        seconds.append(time.process_time() - started)
        runs.append(trained)
        labels = head_labels(trained, collection.views)
        selected.append(labels[0])
        everyone.append(np.mean([score(each, collection.truth).acc for each in labels[1:]]))
    accuracy = np.array([score(labels, collection.truth).acc for labels in selected])
    stability = [adjusted_rand_score(one, other) for one, other in itertools.combinations(selected, 2)]
    return {
        "ACC": accuracy.mean(),
        "sd": accuracy.std(),
        "worst": accuracy.min(),
        "heads": float(np.mean(everyone)),
        "loss": float(np.mean([trained.best.loss for trained in runs])),
        "distinct": float(np.mean([trained.diagnostics.distinct for trained in runs])),
        "agreement": float(np.mean([trained.diagnostics.head_agreement for trained in runs])),
        "stability": float(np.mean(stability)) if stability else float("nan"),
        "s": float(np.mean(seconds)),
    }


def row(name: str, figures: Iterable[float], *more: str) -> None:
    print("| " + " | ".join([name, *(f"{figure:.3f}" for figure in figures), *more]) + " |", flush=True)


def header(*columns: str) -> None:
    print(f"\n| {' | '.join(columns)} |\n{'|---' * len(columns)}|", flush=True)


def compare(folder: Path, names: Iterable[str], rivals: list[str]) -> None:
    """Every method on the same plain features; SPICE also uses the views. Scores are kept, so a stopped run resumes."""
    for name in names:
        collection = opened(folder, name)
        header(f"{name} ({len(collection.views):,})", "ACC", "sd", "worst", "best", "NMI", "ARI", "s", "seeds")
        for method in [*rivals, SPICE]:
            seeds = seeds_of(method)
            columns = np.array(
                [scored(method, collection, seed, folder / name / "scores") for seed in seeds]
            )  # (seeds, 4)
            accuracy, (nmi, ari, seconds) = columns[:, 0], columns[:, 1:].mean(axis=0)
            figures = [accuracy.mean(), accuracy.std(), accuracy.min(), accuracy.max(), nmi, ari, seconds]
            row(method, figures, f"{len(columns)}")


def seeds_of(method: str) -> Iterable[int]:
    """Nothing in agglomerative clustering is random; TEMI takes more than a minute for each seed."""
    return {"agglomerative": range(1), "TEMI": range(3)}.get(method, SEEDS)


def scored(method: str, collection: Collection, seed: int, folder: Path) -> list[float]:
    """ACC, NMI, ARI and processor seconds."""
    # Of other settings than the standard ones now are, no score counts.
    settings = f" {standard_heads(collection.clusters).model_dump_json()}" if method == SPICE else ""
    known = folder / hashlib.blake2b(f"{method}{settings} {seed}".encode(), digest_size=8).hexdigest()
    if not known.exists():
        started = time.process_time()
        labels = method_labels(method, collection, seed)
        seconds = time.process_time() - started
        reached = score(labels, collection.truth)
        folder.mkdir(exist_ok=True)
        known.write_text(json.dumps([reached.acc, reached.nmi, reached.ari, seconds]))
    return [float(figure) for figure in json.loads(known.read_text())]


def method_labels(method: str, collection: Collection, seed: int) -> NDArray[Any]:
    if method in RIVALS:
        return fit(method, np.array(collection.views.plain), collection.clusters, seed=seed)
    settings = standard_heads(collection.clusters)
    return head_labels(trained_quietly(collection.views, settings, seed), collection.views)[0]


def ablation(folder: Path, name: str) -> None:
    """The paper's rows. Heads start at random, as there, so that the rows differ by what they say and nothing else."""
    collection = opened(folder, name)
    base: dict[str, object] = {"heads": 10, "epochs": 30, "components": 128, "select_every": 10}
    rows: dict[str, dict[str, object]] = {
        "double softmax, overlap": {},
        "non-overlap": {"overlap": False},
        "cross-entropy (CE)": {"loss": "cross_entropy"},
        "CE, temperature 0.2 (TCE)": {"loss": "temperature"},
        "double softmax + entropy": {"entropy": 1.0},
        "labels from weak, learned by weak": {"train_view": "weak"},
        "labels from strong, learned by strong": {"label_view": "strong"},
        "labels from strong, learned by weak": {"label_view": "strong", "train_view": "weak"},
    }
    table(collection, base, rows)


def choices(folder: Path, names: Iterable[str]) -> None:
    """What the standard settings change of the paper's, one at a time, and what is seen of it without labels."""
    standard: dict[str, object] = standard_heads(10).model_dump(exclude={"clusters"})
    rows: dict[str, dict[str, object]] = {
        "standard": standard,
        "the paper's even sizes": standard | {"sizes": "even"},
        "sizes not assumed": standard | {"sizes": "nearest"},
        "selected by the loss alone": standard | {"compactness": 0.0},
        "random start": standard | {"start": "random"},
        "random start, by the loss alone, 10 heads": standard | {"start": "random", "compactness": 0.0, "heads": 10},
        "10 heads": standard | {"heads": 10},
        "64 components": standard | {"components": 64},
        "center ratio 0.5": standard | {"center_ratio": 0.5},
        "twice the epochs": standard | {"epochs": 30},
    }
    for name in names:
        table(opened(folder, name), {}, rows, seeds=range(3))


def table(
    collection: Collection,
    base: dict[str, object],
    rows: dict[str, dict[str, object]],
    seeds: Iterable[int] = SEEDS,
) -> None:
    columns = ("ACC", "sd", "worst", "heads", "loss", "distinct", "agreement", "stability", "s")
    header(collection.name, *columns)
    for name, changes in rows.items():
        settings = HeadSettings.model_validate({"clusters": collection.clusters} | base | changes)
        figures = measure(collection, settings, seeds)
        row(name, [figures[column] for column in columns])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", choices=("views", "compare", "ablation", "choices"))
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "stage2")
    arguments.add_argument("--collections", nargs="+", default=list(COLLECTIONS), choices=list(COLLECTIONS))
    arguments.add_argument("--encoder", default="lite0", help="views: the encoder")
    arguments.add_argument("--size", type=int, help="views: pixels, instead of each collection's own number")
    arguments.add_argument("--rivals", nargs="*", default=["k-means"], choices=[*RIVALS, "all"])
    given = arguments.parse_args()
    rivals = list(RIVALS) if given.rivals == ["all"] else given.rivals
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread(s), seeds {list(SEEDS)}")
    if given.what == "views":
        for name in given.collections:
            make_views(given.data, given.folder / name, given.encoder, given.size)
    elif given.what == "compare":
        compare(given.folder, given.collections, rivals)
    elif given.what == "ablation":
        ablation(given.folder, given.collections[0])
    else:
        choices(given.folder, given.collections)


if __name__ == "__main__":
    main()
