"""The second stage on real collections: the paper's ablations.

    python benchmarks/stage2.py views    --data ../shared/data --folder /tmp/stage2      (encode once, about 15 minutes)
    python benchmarks/stage2.py views    --folder /tmp/own --collections cifar10-test --encoder trained.safetensors
    python benchmarks/stage2.py ablation --folder /tmp/stage2

Labels are read by the last line of each measurement alone: nothing is trained, selected or stopped by them. Seconds are
processor seconds, so that other work on the machine disturbs them little; with OMP_NUM_THREADS=1, those of one core.
"""

import argparse
import itertools
import json
import tempfile
import time
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from spice.data import Collection as Listing
from spice.data import ImageStore
from spice.engine.run import Run
from spice.errors import SpiceWarning
from spice.evaluate import score
from spice.models.encoders import load_encoder
from spice.pipeline.execute import Execution
from spice.pipeline.work import Inputs
from spice.presets import standard
from spice.progress import LogProgress
from spice.runs import Result, RunFolder, open_result
from spice.settings import HeadSettings, JointSettings, RunSettings
from spice.stages.heads.algorithm_1 import TrainedHeads
from spice.stages.heads.train import train_heads
from spice.stages.views import Views, open_views
from stored import decode, header, row

# Size of the images in pixels. `--encoder` other than lite0 has its own.
SIZES = {"imagenette": 160, "fruits": 160, "cifar10-test": 96, "fashion-test": 96}
SEEDS = range(5)
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
        run = Run(settings.seed, progress=LogProgress(every_seconds=30.0))
        return Execution(folder, settings, Inputs(store.collection, store), encoder, run, page=False)

    def result(self, settings: RunSettings) -> Result:
        """The finished result with these settings; steps that are finished are not run again."""
        self.execution(settings).carry_out(None, "joint", redo=False)
        return open_result(self.place / "run")


def make_views(data: Path, place: Path, encoder: str, pixels: int | None) -> None:
    """Decode a collection, read its true labels, and encode its views."""
    size = load_encoder(encoder, size=pixels or (SIZES[place.name] if encoder == "lite0" else None)).size
    np.save(place / "truth.npy", decode(data, place.name, place / "images", size=size).truth)
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


def measure(collection: Collection, settings: HeadSettings) -> dict[str, float]:
    """ACC over seeds, and what is seen without labels: loss, distinct share, agreement of heads, stability of seeds."""
    runs, selected, everyone, seconds = [], [], [], []
    for seed in SEEDS:
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


def table(collection: Collection, base: dict[str, object], rows: dict[str, dict[str, object]]) -> None:
    columns = ("ACC", "sd", "worst", "heads", "loss", "distinct", "agreement", "stability", "s")
    header(collection.name, *columns)
    for name, changes in rows.items():
        settings = HeadSettings.model_validate({"clusters": collection.clusters} | base | changes)
        figures = measure(collection, settings)
        row(name, [figures[column] for column in columns])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", choices=("views", "ablation"))
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "stage2")
    arguments.add_argument("--collections", nargs="+", default=list(SIZES), choices=list(SIZES))
    arguments.add_argument("--encoder", default="lite0", help="views: the encoder")
    arguments.add_argument("--size", type=int, help="views: pixels, instead of each collection's own number")
    given = arguments.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread(s), seeds {list(SEEDS)}")
    if given.what == "views":
        for name in given.collections:
            make_views(given.data, given.folder / name, given.encoder, given.size)
    else:
        ablation(given.folder, given.collections[0])


if __name__ == "__main__":
    main()
