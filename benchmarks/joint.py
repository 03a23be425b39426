"""What the third stage gains on real collections.

    python benchmarks/stage2.py views --folder /tmp/stage2 --collections imagenette       (lite0; encode once)
    python benchmarks/joint.py --folder /tmp/stage2 --collections imagenette [--settings '{"steps": 100}']

Every seed has two results in the run folder of its collection, without and with joint training; all steps before it
are shared. Labels are read for the scores alone: nothing is trained, selected or stopped by them. Seconds are processor
seconds, so that other work on the machine disturbs them little; with OMP_NUM_THREADS=1, those of one core.
"""

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spice.errors import SpiceWarning
from spice.evaluate import score
from spice.evaluate.probe import Labeled as Known
from spice.evaluate.probe import linear_accuracy
from spice.presets import joint_on_cpu
from spice.runs import Result
from spice.runs.artifacts import FEATURES, KMEANS, REFINED_FEATURES
from spice.settings import JointSettings
from stage2 import Collection, opened


def scores_of(result: Result, truth: NDArray[np.int64]) -> dict[str, float]:
    """Of all images, and of the reliable ones."""
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
    """One collection and seed, all stages; scores are computed when all is done."""
    # Without checks, the result of joint training is used in any case; what checks would have said is recorded.
    second, third = (
        collection.result(collection.settings(seed=seed, flip=flip, joint=each))
        for each in (None, joint.model_copy(update={"checks": False}))
    )
    report, truth = third.joint, collection.truth
    assert report is not None
    every = max(1, len(report.loss) // 20)
    line: dict[str, Any] = {
        "collection": collection.name,
        "encoder": collection.encoder,
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
        line["probe"] = [linear_accuracy(Known(each, truth)) for each in features]
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where stage2.py keeps views")
    parser.add_argument("--collections", nargs="+", default=["imagenette"])
    parser.add_argument("--no-flip", action="store_true")
    parser.add_argument("--settings", default="{}", help="JSON of joint settings to change")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--probe", action="store_true", help="linear probe of the features before and after")
    parser.add_argument("--results", type=Path, default=Path("joint.jsonl"))
    options = parser.parse_args()
    warnings.simplefilter("ignore", SpiceWarning)
    for name in options.collections:
        collection, flip = opened(options.folder, name), not options.no_flip
        usual = joint_on_cpu(pretrained=not collection.encoder.endswith(".safetensors"), flip=flip)
        joint = JointSettings.model_validate(usual.model_dump() | json.loads(options.settings))
        for seed in options.seeds:
            line = gain(collection, joint, seed, flip=flip, probe=options.probe)
            with options.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            shown = {key: line[key] for key in ("collection", "seed", "seconds", "k-means", "stage 2", "stage 3")}
            print(json.dumps(shown | {"probe": line.get("probe")}), flush=True)


if __name__ == "__main__":
    main()
