"""The third stage on real collections: what it gains, and what it costs.

    python benchmarks/stage2.py views --folder /tmp/stage2 --collections imagenette       (lite0; encode once)
    python benchmarks/joint.py gain   --folder /tmp/stage2 --collections imagenette [--settings '{"steps": 100}']
    python benchmarks/joint.py speed

Every seed has two results in the run folder of its collection, without and with joint training; all steps before it
are shared. Labels are read for the scores alone: nothing is trained, selected or stopped by them. Seconds are processor
seconds, so that other work on the machine disturbs them little; with OMP_NUM_THREADS=1, those of one core.
"""

import argparse
import contextlib
import copy
import json
import statistics
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from spice.data.images import InMemory
from spice.engine.device import placed
from spice.engine.run import Run
from spice.errors import SpiceWarning
from spice.evaluate import score
from spice.evaluate.probe import Labeled as Known
from spice.evaluate.probe import linear_accuracy
from spice.models.encoders import Encoder, TorchEncoder, load_encoder
from spice.models.heads import Head
from spice.models.networks import network
from spice.models.parts import cut
from spice.presets import joint_on_cpu
from spice.runs import Result
from spice.runs.artifacts import FEATURES, KMEANS, REFINED_FEATURES
from spice.settings import IMAGENET, JointSettings
from spice.stages.joint.draws import Labeled
from spice.stages.joint.refine import Stage2, refine
from spice.stages.joint.train import ClusteringNetwork
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


def on_gain(arguments: argparse.Namespace) -> None:
    for name in arguments.collections:
        collection, flip = opened(arguments.folder, name), not arguments.no_flip
        usual = joint_on_cpu(pretrained=not collection.encoder.endswith(".safetensors"), flip=flip)
        joint = JointSettings.model_validate(usual.model_dump() | json.loads(arguments.settings))
        for seed in arguments.seeds:
            line = gain(collection, joint, seed, flip=flip, probe=arguments.probe)
            with arguments.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            shown = {key: line[key] for key in ("collection", "seed", "seconds", "k-means", "stage 2", "stage 3")}
            print(json.dumps(shown | {"probe": line.get("probe")}), flush=True)


class EnoughError(Exception):
    """Enough steps are done."""


class Bare:
    """After every step of the stage, one that only runs the network on ready tensors: forward, and backward."""

    def __init__(self, encoder: TorchEncoder, settings: JointSettings, clusters: int, steps: int) -> None:
        backbone = placed(copy.deepcopy(encoder.module), torch.device("cpu"))
        front, tail = cut(backbone, share=settings.trained, size=encoder.size, channels=encoder.channels)
        self.front = None if front is None else TorchEncoder("front", front, encoder.normalization, size=encoder.size)
        self.network = ClusteringNetwork(tail.requires_grad_(), Head(encoder.features, clusters)).train()
        count = settings.labeled + 2 * settings.unlabeled
        self.views = torch.randn(count, encoder.channels, encoder.size, encoder.size)
        self.others, self.steps = settings.unlabeled, steps
        self.whole: list[float] = []
        self.bare: list[float] = []
        self.since: float | None = None

    def __call__(self, task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:
        """Stand in for the progress that the stage reports after each step."""
        del task, total, figures
        started = time.process_time()
        if self.since is not None:
            self.whole.append(started - self.since)
        self.network.zero_grad(set_to_none=True)
        if self.front is None:
            self.network(self.views.contiguous(memory_format=torch.channels_last)).sum().backward()
        else:
            maps = self.front.encode(self.views).contiguous(memory_format=torch.channels_last)
            with torch.no_grad():
                self.network(maps[: self.others])
            self.network(maps[self.others :]).sum().backward()
        self.since = time.process_time()
        self.bare.append(self.since - started)
        if done > self.steps:
            raise EnoughError


def on_speed(arguments: argparse.Namespace) -> None:
    """The whole stage against bare steps of its network; they alternate, so that other work touches both alike."""
    torch.set_num_threads(1)
    small, paper = network("whitened-patches", width=32), network("resnet18", stem="plain", width=32)
    usual = joint_on_cpu(pretrained=False)
    cases: dict[str, tuple[Encoder, JointSettings]] = {
        "whitened-patches, width 32, 32 px, all layers": (
            TorchEncoder("whitened-patches", small, IMAGENET, size=32),
            usual,
        ),
        "resnet18, width 32, 32 px, all layers": (TorchEncoder("resnet18", paper, IMAGENET, size=32), usual),
        "lite0, 160 px, last fifth": (load_encoder("lite0"), joint_on_cpu(pretrained=True)),
    }
    for name, (encoder, settings) in cases.items():
        assert isinstance(encoder, TorchEncoder)
        images = InMemory(torch.randint(0, 256, (1000, 3, encoder.size, encoder.size), dtype=torch.uint8))
        kind = torch.arange(1000) % 10
        bare = Bare(encoder, settings, 10, arguments.steps)
        features, probs = torch.zeros(1000, encoder.features), F.one_hot(kind, 10).float()
        near = torch.zeros(1000, 10, dtype=torch.long)
        stage2 = Stage2(images, encoder, Head(encoder.features, 10), features, probs, near)
        with contextlib.suppress(EnoughError):
            refine(stage2, Labeled(torch.arange(1000), kind), settings, Run(progress=bare))
        whole, steps = statistics.median(bare.whole), statistics.median(bare.bare[1:])
        count = settings.labeled + 2 * settings.unlabeled
        print(
            f"{name}: whole stage {count / whole:.0f} views/s ({whole:.3f} s a step), bare steps {count / steps:.0f}; "
            f"ratio {steps / whole:.3f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("gain")
    one.add_argument("--folder", type=Path, required=True, help="where stage2.py keeps views")
    one.add_argument("--collections", nargs="+", default=["imagenette"])
    one.add_argument("--no-flip", action="store_true")
    one.add_argument("--settings", default="{}", help="JSON of joint settings to change")
    one.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    one.add_argument("--probe", action="store_true", help="linear probe of the features before and after")
    one.add_argument("--results", type=Path, default=Path("joint.jsonl"))
    one.set_defaults(do=on_gain)
    two = commands.add_parser("speed")
    two.add_argument("--steps", type=int, default=12)
    two.set_defaults(do=on_speed)
    arguments = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpiceWarning)
        arguments.do(arguments)


if __name__ == "__main__":
    main()
