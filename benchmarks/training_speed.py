"""The overhead of each stage's training over its necessary work: network passes or matrix products.

    OMP_NUM_THREADS=1 python benchmarks/training_speed.py features|heads|joint [--steps 12]

`features` and `joint` alternate steps of the whole stage with bare steps of its network on ready tensors, and print the
ratio of the medians. `heads` profiles stage 2 and prints the share of matrix products. Seconds are processor seconds of
one thread, which other work on the machine affects least.
"""

import argparse
import contextlib
import copy
import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from spice.data.images import InMemory
from spice.engine.device import module_to_device
from spice.engine.run import Run
from spice.models.encoders import TorchEncoder, load_encoder
from spice.models.heads import Head
from spice.models.networks import network
from spice.models.parts import split_network
from spice.presets import joint_on_cpu, standard_heads
from spice.progress import Progress
from spice.settings import IMAGENET, FeatureSettings, JointSettings
from spice.stages.features.train import train_features
from spice.stages.heads.train import train_heads
from spice.stages.joint.refine import Stage2, refine
from spice.stages.joint.sampling import Labeled
from spice.stages.joint.train import ClusteringNetwork
from spice.stages.views import Views
from stored import header, row

PRODUCTS = ("aten::mm", "aten::bmm", "aten::baddbmm", "aten::addmm", "aten::baddbmm_")


class EnoughError(Exception):
    """Enough steps are done."""


class Alternating:
    """A progress callback that times the steps of a stage, and runs and times a bare step after each."""

    def __init__(self, bare_step: Callable[[], None], steps: int) -> None:
        self.bare_step, self.steps = bare_step, steps
        self.whole: list[float] = []
        self.bare: list[float] = []
        self.since: float | None = None

    def __call__(self, task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:
        del task, total, figures
        started = time.process_time()
        if self.since is not None:
            self.whole.append(started - self.since)
        self.bare_step()
        self.since = time.process_time()
        self.bare.append(self.since - started)
        if done > self.steps:
            raise EnoughError


def compare(name: str, stage: Callable[[Progress], object], bare_step: Callable[[], None], steps: int) -> None:
    """Print seconds of a step of the stage and of a bare step, and their ratio."""
    taken = Alternating(bare_step, steps)
    with contextlib.suppress(EnoughError):
        stage(taken)
    whole, bare = statistics.median(taken.whole), statistics.median(taken.bare[1:])
    print(f"{name}: {whole:.3f} s a step, bare steps {bare:.3f} s, ratio {bare / whole:.3f}", flush=True)


class Repeated(InMemory):
    """A collection of `count` images, which repeats the given ones."""

    def __init__(self, pixels: Tensor, count: int) -> None:
        super().__init__(pixels)
        self.count = count

    def __len__(self) -> int:
        return self.count

    def take(self, positions: Tensor) -> Tensor:
        return super().take(positions % super().__len__())


def features(steps: int) -> None:
    """MoCo with a half-width ResNet-18 at 32 px, with the queue for 50,000 images."""
    settings = FeatureSettings(network="resnet18", width=32, batch=128, epochs=1)
    images = Repeated(torch.randint(0, 256, (4096, 3, 32, 32), dtype=torch.uint8), 50_000)
    cpu = torch.device("cpu")
    query, key = (module_to_device(network("resnet18", stem="plain", width=32).train(), cpu) for _ in range(2))
    views = [torch.randn(128, 3, 32, 32).contiguous(memory_format=torch.channels_last) for _ in range(2)]

    def bare_step() -> None:
        query.zero_grad(set_to_none=True)
        query(views[0]).sum().backward()
        with torch.no_grad():
            key(views[1])

    compare("MoCo", lambda progress: train_features(images, settings, Run(progress=progress)), bare_step, steps)


class Case(NamedTuple):
    """A network for stage 3, with its settings."""

    name: str
    encoder: TorchEncoder
    settings: JointSettings


def joint(steps: int) -> None:
    """FixMatch on random images: a small network, a ResNet-18, and the last fifth of lite0."""
    small, paper = network("whitened-patches", width=32), network("resnet18", stem="plain", width=32)
    usual, lite0 = joint_on_cpu(pretrained=False), load_encoder("lite0")
    assert isinstance(lite0, TorchEncoder)
    for case in (
        Case("whitened-patches, 32 px", TorchEncoder("whitened-patches", small, IMAGENET, size=32), usual),
        Case("resnet18 of half width, 32 px", TorchEncoder("resnet18", paper, IMAGENET, size=32), usual),
        Case(f"last fifth of lite0, {lite0.size} px", lite0, joint_on_cpu(pretrained=True)),
    ):
        compare(case.name, joint_stage(case), bare_joint_step(case), steps)


def joint_stage(case: Case) -> Callable[[Progress], object]:
    encoder, kind = case.encoder, torch.arange(1000) % 10
    images = InMemory(torch.randint(0, 256, (1000, 3, encoder.size, encoder.size), dtype=torch.uint8))
    features, probs = torch.zeros(1000, encoder.features), F.one_hot(kind, 10).float()
    neighbors = torch.zeros(1000, 10, dtype=torch.long)
    stage2 = Stage2(images, encoder, Head(encoder.features, 10), features, probs, neighbors)
    labeled = Labeled(torch.arange(1000), kind)
    return lambda progress: refine(stage2, labeled, case.settings, Run(progress=progress))


def bare_joint_step(case: Case) -> Callable[[], None]:
    """Forward and backward passes of the trained layers, and forward passes of the others."""
    encoder, settings = case.encoder, case.settings
    backbone = module_to_device(copy.deepcopy(encoder.module), torch.device("cpu"))
    front, tail = split_network(backbone, share=settings.trained, size=encoder.size, channels=encoder.channels)
    frozen = None if front is None else TorchEncoder("front", front, encoder.normalization, size=encoder.size)
    model = ClusteringNetwork(tail.requires_grad_(), Head(encoder.features, 10)).train()
    views = torch.randn(settings.labeled + 2 * settings.unlabeled, encoder.channels, encoder.size, encoder.size)

    def bare_step() -> None:
        model.zero_grad(set_to_none=True)
        if frozen is None:
            model(views.contiguous(memory_format=torch.channels_last)).sum().backward()
            return
        maps = frozen.encode(views).contiguous(memory_format=torch.channels_last)
        with torch.no_grad():
            model(maps[: settings.unlabeled])
        model(maps[settings.unlabeled :]).sum().backward()

    return bare_step


def heads() -> None:
    """Print the seconds of torch operations in stage 2, with standard settings and 6,000 images of 1,280 features."""
    views = synthetic_views(6_000, 1280)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as recorded:
        started = time.perf_counter()
        train_heads(views, standard_heads(10), Run())
        everything = time.perf_counter() - started
    spent = {str(event.key): event.self_cpu_time_total / 1e6 for event in recorded.key_averages()}
    header("operation", "s")
    for name in sorted(spent, key=lambda name: -spent[name])[:15]:
        row(name, [spent[name]])
    products, operations = sum(spent.get(name, 0.0) for name in PRODUCTS), sum(spent.values())
    row("all operations", [operations])
    row("everything, Python and the profiler included", [everything])
    print(
        f"\nmatrix products: {products / operations:.1%} of all operations, {products / everything:.1%} of everything"
    )


def synthetic_views(images: int, width: int) -> Views:
    """Ten groups with noise, with one weak and one strong view."""
    centers, group = np.random.default_rng(7).normal(size=(10, width)), np.arange(images) % 10
    plain, weak, strong = (
        (centers[group] + 2 * np.random.default_rng(seed).normal(size=(images, width))).astype(np.float32)
        for seed in range(3)
    )
    return Views(plain, weak[None], strong[None])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("features", "heads", "joint"))
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.stage == "heads":
        heads()
    else:
        {"features": features, "joint": joint}[options.stage](options.steps)


if __name__ == "__main__":
    main()
