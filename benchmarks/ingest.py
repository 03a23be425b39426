"""Reading images into the store: memory over 200,000 images, and speed against a plain Pillow loop.

    python benchmarks/ingest.py memory [--count 200000]
    python benchmarks/ingest.py speed --images ../shared/data/imagenette.tar [--workers 1]

`memory` makes a tar of small PNG files, all different, reads it into a store at 32 pixels, and prints resident memory
as it goes. `speed` unpacks an archive of photos into a temporary folder and compares `ingest` (which also hashes every
file and writes the store) with a loop that only opens, decodes, crops and resizes each file.
"""

import argparse
import io
import resource
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from spice.data import ImageStore, ingest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("memory", "speed"))
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where temporary files go")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        if arguments.what == "memory":
            show_memory(Path(folder), arguments.count, arguments.workers)
        else:
            show_speed(Path(folder), arguments.images, arguments.size, arguments.workers)


def show_memory(folder: Path, count: int, workers: int) -> None:
    make_tar(folder / "images.tar", count)
    print(f"{count:,} images in a tar of {(folder / 'images.tar').stat().st_size / 1e6:,.0f} MB")
    watch = Watch(count)
    begun = time.perf_counter()
    store = ingest(folder / "images.tar", size=32, folder=folder / "store", workers=workers, progress=watch)
    took = time.perf_counter() - begun
    print(f"read in {took:.0f} s, {count / took:,.0f} images/s, {len(store):,} images, {store.channels} channels")
    print(f"peak resident memory {peak_megabytes():,.0f} MB; pixels {len(store) * 3 * 32 * 32 / 1e6:,.0f} MB")
    show_taking(store)


class Watch:
    """Prints resident memory at every tenth of the work."""

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


def show_speed(folder: Path, images: Path, size: int, workers: int) -> None:
    with tarfile.open(images) as archive:
        archive.extractall(folder / "photos", filter="data")
    paths = sorted(path for path in (folder / "photos").rglob("*") if path.is_file())
    for round_number in range(3):  # the first fills the file system's cache
        plain = timed(lambda: plain_loop(paths, size))
        shutil.rmtree(folder / "store", ignore_errors=True)
        ours = timed(lambda: ingest(folder / "photos", size=size, folder=folder / "store", workers=workers))
        again = timed(lambda: ingest(folder / "photos", size=size, folder=folder / "store", workers=workers))
        print(
            f"round {round_number}, {len(paths):,} photos at {size} px, microseconds per photo (of CPU time): "
            f"Pillow {per_image(plain, paths)}, ingest with {workers} workers {per_image(ours, paths)}, "
            f"unchanged again {per_image(again, paths)}"
        )
    show_taking(ingest(folder / "photos", size=size, folder=folder / "store"))


def show_taking(store: ImageStore) -> None:
    drawn = torch.randint(len(store), (40, 256), generator=torch.Generator().manual_seed(0))
    took = timed(lambda: [store.take(positions) for positions in drawn])
    print(f"random batches of 256: {drawn.numel() / took.wall:,.0f} images/s")


def plain_loop(paths: list[Path], size: int) -> None:
    for path in paths:
        with Image.open(path) as image:
            photo = image.convert("RGB")
        short = min(photo.size)
        left, top = (photo.width - short) // 2, (photo.height - short) // 2
        np.asarray(photo.resize((size, size), Image.Resampling.BICUBIC, box=(left, top, left + short, top + short)))


class Took(NamedTuple):
    """Seconds on the clock, and of all threads' work: on a machine with other guests the two differ."""

    wall: float
    work: float


def timed(work: Callable[[], object]) -> Took:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Took(time.perf_counter() - wall, time.process_time() - cpu)


def per_image(took: Took, paths: list[Path]) -> str:
    return f"{took.wall / len(paths) * 1e6:,.0f} ({took.work / len(paths) * 1e6:,.0f})"


def resident_megabytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    main()
