"""The gain of joint training (stage 3) on real collections.

    python benchmarks/joint.py --folder /tmp/joint --collections imagenette [--size 256] [--settings '{"steps": 100}']
    python benchmarks/joint.py --folder /tmp/own --collections fashion-test --encoder trained.safetensors

Each collection is decoded and encoded once, into its own run folder. There, every seed has two results, without and
with joint training, which share all earlier steps. True labels are used only to score. Seconds are processor seconds,
which other work on the machine affects little; set OMP_NUM_THREADS=1 to measure those of one core.
"""

import argparse
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spice.data import Collection as Listing
from spice.data import ImageStore
from spice.engine.run import Run
from spice.errors import SpiceWarning
from spice.evaluate import score
from spice.evaluate.probe import LabeledFeatures, linear_accuracy
from spice.models.encoders import Encoder, load_encoder
from spice.pipeline.execute import Execution
from spice.pipeline.work import Inputs
from spice.presets import joint_on_cpu, standard
from spice.progress import LogProgress
from spice.runs import Result, RunFolder, open_result
from spice.runs.artifacts import FEATURES, KMEANS, REFINED_FEATURES
from spice.settings import JointSettings
from stored import COLLECTIONS, decode

# Image sizes for lite0, in pixels. Other encoders use their own.
SIZES = {"cifar10-test": 96, "fashion-test": 96}
USUAL_SIZE = 160


@dataclass(frozen=True)
class Collection:
    """A decoded collection, an encoder and the true labels, for the scores. All results share one run folder."""

    place: Path
    encoder: Encoder
    truth: NDArray[np.int64]

    def result(self, joint: JointSettings | None, *, seed: int, flip: bool) -> Result:
        """The result of a run that uses the same views for all seeds. Finished steps are reused."""
        images = self.place / f"images-{self.encoder.size}"
        store = ImageStore(images, Listing.load(images), self.encoder.size)
        (self.place / "run").mkdir(exist_ok=True)
        folder = RunFolder.open_or_create(self.place / "run", source=None)
        clusters, size = int(self.truth.max()) + 1, self.encoder.size
        usual = standard(clusters=clusters, encoder=self.encoder.name, size=size, flip=flip, seed=seed)
        settings = usual.model_copy(update={"joint": joint, "features_seed": 0})
        run = Run(seed, progress=LogProgress(every_seconds=30.0))
        execution = Execution(folder, settings, Inputs(store.collection, store), self.encoder, run, page=False)
        execution.carry_out(None, "joint", redo=False)
        return open_result(self.place / "run")


def opened(data: Path, place: Path, encoder: str, size: int | None) -> Collection:
    """The collection with the name of the folder `place`, decoded first if needed."""
    usual = SIZES.get(place.name, USUAL_SIZE) if encoder == "lite0" else None
    loaded = load_encoder(encoder, size=size or usual)
    images, truth = place / f"images-{loaded.size}", place / f"truth-{loaded.size}.npy"
    if not truth.exists():
        place.mkdir(parents=True, exist_ok=True)
        np.save(truth, decode(data, place.name, images, size=loaded.size).truth)
    return Collection(place, loaded, np.load(truth).astype(np.int64))


def scores_of(result: Result, truth: NDArray[np.int64]) -> dict[str, float]:
    """Scores of all images, and of the reliable ones."""
    labels, kept = result.labels.cluster, result.labels.reliable
    every = score(labels, truth)
    return {
        "acc": every.acc,
        "nmi": every.nmi,
        "ari": every.ari,
        "kept": float(kept.mean()),
        "acc_kept": score(labels[kept], truth[kept]).acc if kept.any() else float("nan"),
    }


def gain(collection: Collection, joint: JointSettings, seed: int, *, flip: bool, probe: bool) -> dict[str, Any]:
    """Run all stages on a collection with one seed, then compute the scores."""
    # Without checks, the result of joint training is always used; failed checks are recorded.
    second, third = (
        collection.result(each, seed=seed, flip=flip) for each in (None, joint.model_copy(update={"checks": False}))
    )
    report, truth = third.joint, collection.truth
    assert report is not None
    every = max(1, len(report.loss) // 20)
    line: dict[str, Any] = {
        "collection": collection.place.name,
        "encoder": collection.encoder.name,
        "seed": seed,
        "settings": joint.model_dump(mode="json", exclude_defaults=True),
        "seconds": {f"stage {n}": third.records[step].cpu_seconds for n, step in ((2, "heads"), (3, "joint"))},
        **report.model_dump(include={"before", "after", "failed_checks"}),
        "loss": report.loss[::every],
        "taught": report.taught[::every],
        "k-means": score(np.load(second.need(KMEANS)), truth)._asdict(),
        "stage 2": scores_of(second, truth),
        "stage 3": scores_of(third, truth),
    }
    if probe:
        features = (np.load(third.need(kept)) for kept in (FEATURES, REFINED_FEATURES))
        line["probe"] = [linear_accuracy(LabeledFeatures(each, truth)) for each in features]
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--folder", type=Path, required=True, help="for images, views and results")
    parser.add_argument("--collections", nargs="+", default=["imagenette"], choices=list(COLLECTIONS))
    parser.add_argument("--encoder", default="lite0")
    parser.add_argument("--size", type=int, help="pixels, instead of each collection's own number")
    parser.add_argument("--no-flip", action="store_true")
    parser.add_argument("--settings", default="{}", help="JSON of joint settings to change")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--probe", action="store_true", help="linear probe of the features before and after")
    parser.add_argument("--results", type=Path, default=Path("joint.jsonl"))
    options = parser.parse_args()
    warnings.simplefilter("ignore", SpiceWarning)
    flip, pretrained = not options.no_flip, not options.encoder.endswith(".safetensors")
    usual = joint_on_cpu(pretrained=pretrained, flip=flip)
    joint = JointSettings.model_validate(usual.model_dump() | json.loads(options.settings))
    for name in options.collections:
        collection = opened(options.data, options.folder / name, options.encoder, options.size)
        for seed in options.seeds:
            line = gain(collection, joint, seed, flip=flip, probe=options.probe)
            with options.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            shown = {key: line[key] for key in ("collection", "seed", "seconds", "k-means", "stage 2", "stage 3")}
            print(json.dumps(shown | {"probe": line.get("probe")}), flush=True)


if __name__ == "__main__":
    main()
