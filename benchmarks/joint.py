"""The third stage on real collections: what it gains, and what it costs. How accuracy follows r: reliability.py.

    python benchmarks/stage2.py views --data ../shared/data --folder /tmp/stage2          (lite0; encode once)
    python benchmarks/joint.py gain   --folder /tmp/stage2 --collections imagenette [--settings '{"steps": 100}']
    python benchmarks/joint.py views  --folder /tmp/own --collections cifar10-test --encoder trained.safetensors
    python benchmarks/joint.py gain   --folder /tmp/own --collections cifar10-test --encoder trained.safetensors
    python benchmarks/joint.py speed

Labels are read by the last lines of each measurement alone: nothing is trained, selected or stopped by them. Seconds
are processor seconds, so that other work on the machine disturbs them little; with OMP_NUM_THREADS=1, of one core.
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
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from features_quality import Pixels, cifar10, fashion
from spice.data import Collection, ImageStore, ingest
from spice.data.images import Images
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
from spice.neighbors import nearest
from spice.presets import joint_on_cpu, standard_heads
from spice.progress import Logged
from spice.settings import IMAGENET, JointSettings, ReliabilitySettings, ViewSettings
from spice.stages.encode import probabilities
from spice.stages.heads.train import train_heads
from spice.stages.joint.draws import Labeled
from spice.stages.joint.refine import Refined, Stage2, refine
from spice.stages.joint.train import ClusteringNetwork
from spice.stages.kmeans import kmeans
from spice.stages.reliability import Reliability, judge, labels_to_learn, reliability_neighbors
from spice.stages.views import encode_views, open_views

Truth = NDArray[np.int64]
RULE = ReliabilitySettings()


class Result(NamedTuple):
    """Of a stage."""

    features: Tensor  # (N, D)
    probs: Tensor  # (N, K)

    @property
    def neighbors(self) -> Tensor:
        return nearest(self.features, reliability_neighbors(len(self.probs), self.probs.shape[1], RULE)).index


def judged(result: Result) -> Reliability:
    return judge(result.probs.argmax(dim=1), result.neighbors, RULE, clusters=result.probs.shape[1])


def labels_for(result: Result, seed: int) -> Labeled:
    return labels_to_learn(result.probs, result.neighbors, RULE, seed=seed)


def second_stage(folder: Path, clusters: int, seed: int) -> tuple[Head, Result]:
    """The head that `spice cluster` would select, and its result."""
    views = open_views(folder)
    head = train_heads(views, standard_heads(clusters), Run(seed=seed)).head
    features = torch.from_numpy(np.array(views.plain, dtype=np.float32))
    return head, Result(features, probabilities(head, features))


def third_stage(
    images: Images, encoder: Encoder, head: Head, result: Result, *, settings: JointSettings, seed: int
) -> Refined:
    stage2 = Stage2(images, encoder, head, *result, result.neighbors)
    return refine(stage2, labels_for(result, seed), settings, Run(seed, progress=Logged(every_seconds=30.0)))


def scores_of(result: Result, truth: Truth) -> dict[str, float]:
    """Of all images, and of the reliable ones."""
    labels, kept = result.probs.argmax(dim=1).numpy(), judged(result).reliable.numpy()
    every = score(labels, truth)
    return {
        "acc": every.acc,
        "nmi": every.nmi,
        "ari": every.ari,
        "kept": float(kept.mean()),
        "acc_kept": score(labels[kept], truth[kept]).acc if kept.any() else float("nan"),
    }


def gain(folder: Path, encoder: Encoder, settings: JointSettings, seed: int, *, probe: bool) -> dict[str, Any]:
    """One collection and seed, all stages; scores are computed when all is done."""
    truth: Truth = np.load(folder / "truth.npy").astype(np.int64)
    images = ImageStore(folder / "images", Collection.load(folder / "images"), encoder.size)
    clusters = int(truth.max()) + 1
    started = time.process_time()
    head, second = second_stage(folder, clusters, seed)
    between = time.process_time()
    refined = third_stage(images, encoder, head, second, settings=settings, seed=seed)
    ended = time.process_time()
    line: dict[str, Any] = {
        "collection": folder.name,
        "encoder": encoder.name,
        "seed": seed,
        "settings": settings.model_dump(mode="json", exclude_defaults=True),
        "seconds": {"stage 2": between - started, "stage 3": ended - between},
        "before": refined.before._asdict(),
        "after": refined.after._asdict(),
        "failed checks": refined.failed_checks,
        "loss": [step.loss for step in refined.history[:: max(1, len(refined.history) // 20)]],
        "taught": [step.taught for step in refined.history[:: max(1, len(refined.history) // 20)]],
    }
    print(json.dumps(line), flush=True)
    line["k-means"] = score(kmeans(second.features.numpy(), clusters, seed=seed), truth)._asdict()
    third = Result(refined.features, refined.probs)
    line["stage 2"], line["stage 3"] = scores_of(second, truth), scores_of(third, truth)
    if probe:
        line["probe"] = [linear_accuracy(Known(part.features.numpy(), truth)) for part in (second, third)]
    return line


def on_views(arguments: argparse.Namespace) -> None:
    """The test images of data sets that a feature model of our own was trained for, and its features of them."""
    for name in arguments.collections:
        data = {"cifar10-test": cifar10, "fashion-test": fashion}[name](arguments.data)
        assert data.test is not None
        assert data.test_labels is not None
        encoder, place = load_encoder(arguments.encoder), arguments.folder / name
        arrays = data.test.pixels.permute(0, 2, 3, 1).squeeze(dim=3).numpy()  # (N, S, S[, 3])
        store = ingest(arrays, size=encoder.size, folder=place / "images")
        np.save(place / "truth.npy", data.test_labels[store.collection.numbers])
        encode_views(store, encoder, ViewSettings(), Run(folder=place, progress=Logged()))


def on_gain(arguments: argparse.Namespace) -> None:
    encoder_of = {name: load_encoder(arguments.encoder, size=arguments.size) for name in arguments.collections}
    for name, encoder in encoder_of.items():
        pretrained = not arguments.encoder.endswith(".safetensors")
        usual = joint_on_cpu(pretrained=pretrained, flip=not arguments.no_flip)
        settings = JointSettings.model_validate(usual.model_dump() | json.loads(arguments.settings))
        for seed in arguments.seeds:
            line = gain(arguments.folder / name, encoder, settings, seed, probe=arguments.probe)
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
        images = Pixels(np.random.default_rng(0).integers(0, 256, (1000, 3, encoder.size, encoder.size), np.uint8))
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
    one.add_argument("--folder", type=Path, required=True, help="with a folder per collection, as stage2.py makes them")
    one.add_argument("--collections", nargs="+", default=["imagenette"])
    one.add_argument("--encoder", default="lite0")
    one.add_argument("--size", type=int)
    one.add_argument("--no-flip", action="store_true")
    one.add_argument("--settings", default="{}", help="JSON of joint settings to change")
    one.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    one.add_argument("--probe", action="store_true", help="linear probe of the features before and after")
    one.add_argument("--results", type=Path, default=Path("joint.jsonl"))
    one.set_defaults(do=on_gain)
    zero = commands.add_parser("views")
    zero.add_argument("--data", type=Path, default=Path("../shared/data"))
    zero.add_argument("--folder", type=Path, required=True)
    zero.add_argument("--collections", nargs="+", choices=("cifar10-test", "fashion-test"), required=True)
    zero.add_argument("--encoder", required=True)
    zero.set_defaults(do=on_views)
    two = commands.add_parser("speed")
    two.add_argument("--steps", type=int, default=12)
    two.set_defaults(do=on_speed)
    arguments = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpiceWarning)
        arguments.do(arguments)


if __name__ == "__main__":
    main()
