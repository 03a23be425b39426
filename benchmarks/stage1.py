"""What stage 1 costs beside the network steps it cannot do without, and what talking to a second process costs.

    python benchmarks/stage1.py                     whole stage against bare network steps, on one and on two threads
    torchrun --nproc-per-node=2 benchmarks/stage1.py    two processes that train one model against two that do not talk

Whole and bare steps alternate, so that what else the machine does touches both alike; the ratio is of medians. A step
is one of an epoch of 50,000 images, with the queue that goes with them.
"""

import argparse
import contextlib
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spice.data import ImageStore, ingest
from spice.engine.device import placed
from spice.engine.processes import ALONE, Processes, join_processes
from spice.engine.run import Run
from spice.models.networks import network
from spice.settings import FeatureSettings
from spice.stages.features.train import train_features

SIZE = 32


def settings(arguments: argparse.Namespace, batch: int) -> FeatureSettings:
    return FeatureSettings(network="resnet18", width=arguments.width, batch=batch, epochs=1)


def store(folder: Path, images: int) -> ImageStore:
    pixels = np.random.default_rng(0).integers(0, 256, (images, SIZE, SIZE, 3), dtype=np.uint8)
    return ingest(pixels, size=SIZE, folder=folder)


class Seconds(NamedTuple):
    """On the wall, and of the processor: the second is untouched by what else the machine does."""

    wall: float
    processor: float

    def __sub__(self, other: "Seconds") -> "Seconds":
        return Seconds(self.wall - other.wall, self.processor - other.processor)


def now() -> Seconds:
    return Seconds(time.perf_counter(), time.process_time())


class EnoughError(Exception):
    """The steps asked for are done."""


class Bare:
    """Query forward and backward, key forward, on ready tensors: timed after every step of the stage."""

    def __init__(self, width: int, batch: int, steps: int) -> None:
        self.query, self.key = (
            placed(network("resnet18", stem="plain", width=width).train(), torch.device("cpu")) for _ in range(2)
        )
        self.views = [torch.randn(batch, 3, SIZE, SIZE).contiguous(memory_format=torch.channels_last) for _ in range(2)]
        self.whole: list[Seconds] = []
        self.bare: list[Seconds] = []
        self.since: Seconds | None = None
        self.steps = steps

    def __call__(self, task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:
        """Stand in for the progress that the stage tells after each step."""
        del task, total, figures
        started = now()
        if self.since is not None:
            self.whole.append(started - self.since)
        self.query.zero_grad(set_to_none=True)
        self.query(self.views[0]).sum().backward()
        with torch.no_grad():
            self.key(self.views[1])
        self.since = now()
        self.bare.append(self.since - started)
        if done > self.steps:
            raise EnoughError


def against_bare_steps(arguments: argparse.Namespace, folder: Path) -> None:
    images = Counted(store(folder / "images", 4096), 50_000)
    print(f"width-{arguments.width} ResNet-18, {SIZE} px, batch {arguments.batch}, {arguments.steps} steps of MoCo-v2")
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        bare = Bare(arguments.width, arguments.batch, arguments.steps)
        with contextlib.suppress(EnoughError):
            run = Run(folder=folder / str(threads), progress=bare)
            train_features(images, settings(arguments, arguments.batch), run)
        print(f"{threads} thread{'s' if threads > 1 else ''}:", flush=True)
        for kind, clock in enumerate(("wall clock", "processor time")):
            whole, steps = (statistics.median(step[kind] for step in taken) for taken in (bare.whole, bare.bare))
            print(
                f"  by {clock}: whole stage {arguments.batch / whole:.1f} images/s, "
                f"bare steps {arguments.batch / steps:.1f} images/s, ratio {steps / whole:.3f}",
                flush=True,
            )


class Stopwatch:
    """Seconds of each step."""

    def __init__(self) -> None:
        self.marks: list[float] = []

    def __call__(self, task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:
        del task, done, total, figures
        self.marks.append(time.perf_counter())

    def seconds(self) -> list[float]:
        return [after - before for before, after in zip(self.marks, self.marks[1:], strict=False)]


def against_silence(arguments: argparse.Namespace, folder: Path, processes: Processes) -> None:
    torch.set_num_threads(1)
    share = processes.share(arguments.batch)
    images = store(folder / f"images-{processes.rank}", 2048)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for talking in [True, False] * 4:
        watch = Stopwatch()
        processes.barrier()
        own = processes if talking else ALONE
        short = Counted(images, arguments.steps // 4 * (arguments.batch if talking else share))
        train_features(short, settings(arguments, share * own.count), Run(processes=own, progress=watch))
        seconds[talking] += watch.seconds()
    if processes.first:
        talking_step, silent_step = (statistics.median(seconds[talking]) for talking in (True, False))
        print(
            f"{processes.count} processes, batch {arguments.batch}: {arguments.batch / talking_step:.1f} images/s; "
            f"without talking {arguments.batch / silent_step:.1f}; talking costs {1 - silent_step / talking_step:.1%}"
        )


class Counted:
    """So many images, the same ones over and over where the store has fewer."""

    def __init__(self, images: ImageStore, count: int) -> None:
        self.size, self.channels, self.images, self.count = images.size, images.channels, images, count

    def __len__(self) -> int:
        return self.count

    def take(self, positions: Tensor) -> Tensor:
        return self.images.take(positions % len(self.images))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, join_processes() as processes:
        if processes.count == 1:
            against_bare_steps(arguments, Path(folder))
        else:
            against_silence(arguments, Path(folder), processes)


if __name__ == "__main__":
    main()
