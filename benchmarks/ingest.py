"""Memory while 200,000 images are read into the store.

    python benchmarks/ingest.py [--count 200000]

Makes a tar of small, distinct PNG files, reads it into a store at 32 pixels, and prints resident memory.
"""

import argparse
import io
import resource
import tarfile
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from spice.data import ingest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where temporary files go")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        show_memory(Path(folder), arguments.count, arguments.workers)


def show_memory(folder: Path, count: int, workers: int) -> None:
    make_tar(folder / "images.tar", count)
    print(f"{count:,} images in a tar of {(folder / 'images.tar').stat().st_size / 1e6:,.0f} MB")
    memory_log = MemoryLog(count)
    begun = time.perf_counter()
    store = ingest(folder / "images.tar", size=32, folder=folder / "store", workers=workers, progress=memory_log)
    took = time.perf_counter() - begun
    print(f"read in {took:.0f} s, {count / took:,.0f} images/s, {len(store):,} images, {store.channels} channels")
    print(f"peak resident memory {peak_megabytes():,.0f} MB; pixels {len(store) * 3 * 32 * 32 / 1e6:,.0f} MB")
    drawn = torch.randint(len(store), (40, 256), generator=torch.Generator().manual_seed(0))
    begun = time.perf_counter()
    for positions in drawn:
        store.take(positions)
    print(f"random batches of 256: {drawn.numel() / (time.perf_counter() - begun):,.0f} images/s")


class MemoryLog:
    """A progress callback that prints resident memory after every tenth of the images."""

    def __init__(self, count: int) -> None:
        self.step = count // 10
        self.next = 0

    def __call__(self, task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        if done >= self.next:
            print(f"  {done:>9,} of {total:,}: {resident_megabytes():,.0f} MB", flush=True)
            self.next += self.step


def make_tar(path: Path, count: int) -> None:
    random = np.random.default_rng(0)
    with tarfile.open(path, "w") as archive:
        for number in range(count):
            coarse = random.integers(0, 256, (4, 4, 3), dtype=np.uint8)
            buffer = io.BytesIO()
            Image.fromarray(coarse.repeat(8, axis=0).repeat(8, axis=1)).save(buffer, "PNG", compress_level=1)
            member = tarfile.TarInfo(f"images/{number % 1000:03d}/{number}.png")
            member.size = buffer.tell()
            buffer.seek(0)
            archive.addfile(member, buffer)


def resident_megabytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    main()
