"""The whole command from start to report: this version of spice compared with another one on the same images.

    git worktree add ../release 5855713
    python benchmarks/whole_command.py --release ../release/src [--count 1500] [--quick] [--rounds 1]

Unpacks photos (../shared/data/imagenette.tar) into a folder and clusters them with both versions alternately. Each has
its own cache, which already contains the exported encoder. Prints wall time, processor time of all threads, time per
step, and ACC. True labels are the names of the folders, read at the end. On a busy machine, compare processor time.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

from spice.evaluate.scores import accuracy
from stored import unpack

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


class Version(NamedTuple):
    """A version of spice, with its options."""

    name: str
    source: Path
    options: tuple[str, ...] = ()


class Ran(NamedTuple):
    """The result of one command."""

    wall: float
    processor: float
    steps: dict[str, float]  # wall seconds
    accuracy: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, default=SHARED / "imagenette.tar")
    parser.add_argument("--release", type=Path, help="the src folder of the other version")
    parser.add_argument("--count", type=int, help="number of images, evenly spaced; default: all")
    parser.add_argument("--clusters", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="also run this version with --preset quick")
    parser.add_argument("--folder", type=Path, help="where temporary files go")
    arguments = parser.parse_args()
    own = Path(__file__).resolve().parents[1] / "src"
    versions = [Version("this version", own)]
    if arguments.quick:
        versions.append(Version("this version, quick", own, ("--preset", "quick")))
    if arguments.release is not None:
        versions.append(Version("release", arguments.release.resolve()))
    with tempfile.TemporaryDirectory(dir=arguments.folder) as temporary:
        folder = Path(temporary)
        count = unpack(arguments.images, folder / "photos", arguments.count)
        few = folder / "few"
        unpack(arguments.images, few, 320)
        print(f"{count:,} images, {arguments.threads} threads")
        settings = {"clusters": arguments.clusters, "threads": arguments.threads}
        runs: dict[str, list[Ran]] = {version.name: [] for version in versions}
        for version in versions:  # fills the cache, which makes the first command slower
            run(version, few, folder, **settings)
        for _ in range(arguments.rounds):
            for version in versions:
                runs[version.name].append(run(version, folder / "photos", folder, **settings))
                show(version.name, runs[version.name][-1])
        compare(runs)


def run(version: Version, photos: Path, folder: Path, *, clusters: int, threads: int) -> Ran:
    """Cluster the photos into a new run folder, in a separate process."""
    with tempfile.TemporaryDirectory(dir=folder) as out:
        here = Path(out) / "run"
        command = [sys.executable, "-m", "spice", "cluster", str(photos), "-k", str(clusters), "--out", str(here)]
        environment = os.environ | {
            "PYTHONPATH": str(version.source),
            "OMP_NUM_THREADS": str(threads),
            "SPICE_CACHE": str(folder / f"cache {version.name}"),
        }
        before, begun = _processor_seconds(), time.monotonic()
        subprocess.run([*command, *version.options], env=environment, check=True, capture_output=True)
        wall, processor = time.monotonic() - begun, _processor_seconds() - before
        return Ran(wall, processor, _steps(here), _accuracy(here))


def show(name: str, ran: Ran) -> None:
    steps = ", ".join(f"{step} {seconds:.1f}" for step, seconds in ran.steps.items() if seconds >= 0.1)
    print(f"{name}: {ran.wall:.1f} s, {ran.processor:.1f} s of processor time, ACC {ran.accuracy:.4f}", flush=True)
    print(f"    {steps}", flush=True)


def compare(runs: dict[str, list[Ran]]) -> None:
    """Print a table of medians, and of times relative to this version."""
    print("\n| | wall | processor | ACC | wall, of this version's | processor, of this version's |")
    print("|---|---|---|---|---|---|")
    middle = {
        name: [float(np.median([getattr(ran, what) for ran in rans])) for what in ("wall", "processor", "accuracy")]
        for name, rans in runs.items()
    }
    first = next(iter(middle.values()))
    for name, (wall, processor, found) in middle.items():
        ratios = f"{wall / first[0]:.2f} | {processor / first[1]:.2f}"
        print(f"| {name} | {wall:.1f} s | {processor:.1f} s | {found:.4f} | {ratios} |")


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _steps(folder: Path) -> dict[str, float]:
    """Seconds of every step, from its record, in descending order."""
    found = {}
    for path in [*folder.glob("steps/*/*.json"), *folder.glob("results/*/*.json")]:
        record = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(record, dict) and "seconds" in record and "step" in record:
            found[record["step"]] = float(record["seconds"])
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _accuracy(folder: Path) -> float:
    table = pq.read_table(next(folder.glob("results/*/labels.parquet")), columns=["path", "cluster"])
    names = [Path(path).parent.name for path in table["path"].to_pylist()]
    truth = np.unique(names, return_inverse=True)[1]
    return accuracy(table["cluster"].to_numpy(), truth)


if __name__ == "__main__":
    main()
