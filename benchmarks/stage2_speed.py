"""The second stage's time, its growth with the images, and where it goes. Prints tables of docs/lab-notes.

    OMP_NUM_THREADS=1 python benchmarks/stage2_speed.py            (a table of sizes and settings)
    OMP_NUM_THREADS=1 python benchmarks/stage2_speed.py --profile  (operations of the standard settings)

Seconds are processor seconds, so that other work on the machine disturbs them little. Shares are of the time of all of
torch's operations, and of all time, Python's and the profiler's own included, both by the profiler's clock.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from spice.presets import standard_heads
from spice.settings import HeadSettings
from spice.stages.views import Views
from stage2 import header, row, trained_quietly

PRODUCTS = ("aten::mm", "aten::bmm", "aten::baddbmm", "aten::addmm", "aten::baddbmm_")


def speed() -> None:
    header("N", "D", "heads", "settings", "seconds", "s per 1,000 images", "products of operations", "of everything")
    standard = standard_heads(10)
    generated_speed(6_000, standard, "standard")
    generated_speed(6_000, standard.model_copy(update={"heads": 10}), "standard, 10 heads")
    generated_speed(6_000, HeadSettings(clusters=10, epochs=2), "the paper's D-D-K heads, 2 epochs")
    for images in (6_000, 20_000, 60_000, 200_000):
        generated_speed(images, standard.model_copy(update={"epochs": 2}), "standard, 2 epochs")


def generated_speed(images: int, settings: HeadSettings, name: str, *, width: int = 1280) -> None:
    with tempfile.TemporaryDirectory() as folder:
        views = generated_views(images, width, Path(folder))
        started = time.process_time()
        trained_quietly(views, settings, 0)
        seconds = time.process_time() - started
        shares = "- | -"
        if images <= 6_000:  # profiles are large
            found = profile(views, settings)
            shares = f"{found.products / found.all_operations:.0%} | {found.products / found.everything:.0%}"
    per = seconds / images * 1000
    print(f"| {images:,} | {width} | {settings.heads} | {name} | {seconds:.1f} | {per:.2f} | {shares} |", flush=True)


def generated_views(images: int, width: int, folder: Path) -> Views:
    """Features in files, as a run has them: ten groups with noise, one weak and one strong view."""
    tables = []
    for kind, views in (("plain", None), ("weak", 1), ("strong", 1)):
        shape = (images, width) if views is None else (views, images, width)
        table = np.lib.format.open_memmap(folder / kind, mode="w+", dtype=np.float32, shape=shape)
        rows = table.reshape(images, width)
        random, centers = np.random.default_rng(views), np.random.default_rng(7).normal(size=(10, width))
        for start in range(0, images, 10_000):
            group = np.arange(start, min(start + 10_000, images)) % 10
            rows[start : start + 10_000] = centers[group] + 2 * random.normal(size=(len(group), width))
        table.flush()
        tables.append(np.load(folder / kind, mmap_mode="r"))
    return Views(*tables)


class Profile(NamedTuple):
    """Torch's operations and their own seconds, largest first, and the seconds of the whole run, by the same clock."""

    operations: list[tuple[str, float]]
    everything: float  # Python and the profiler included

    @property
    def products(self) -> float:
        return sum(seconds for name, seconds in self.operations if name in PRODUCTS)

    @property
    def all_operations(self) -> float:
        return sum(seconds for _, seconds in self.operations)


def profile(views: Views, settings: HeadSettings) -> Profile:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as recorded:
        started = time.perf_counter()
        trained_quietly(views, settings, 0)
        everything = time.perf_counter() - started
    operations = [(str(event.key), event.self_cpu_time_total / 1e6) for event in recorded.key_averages()]
    return Profile(sorted(operations, key=lambda pair: -pair[1]), everything)


def print_profile() -> None:
    """Where the time of the standard settings goes at 6,000 images of 1,280 features."""
    with tempfile.TemporaryDirectory() as folder:
        found = profile(generated_views(6_000, 1280, Path(folder)), standard_heads(10))
    header("operation", "s")
    for name, seconds in found.operations[:15]:
        row(name, [seconds])
    row("all operations", [found.all_operations])
    row("everything, Python and the profiler included", [found.everything])
    of_operations, of_everything = (found.products / whole for whole in (found.all_operations, found.everything))
    print(f"\nmatrix products: {of_operations:.1%} of all operations, {of_everything:.1%} of everything")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--profile", action="store_true")
    if arguments.parse_args().profile:
        print_profile()
    else:
        speed()


if __name__ == "__main__":
    main()
