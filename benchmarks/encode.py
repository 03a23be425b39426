"""From a folder of JPEG files to features: images per second, compared with the forward pass alone.

    python benchmarks/encode.py --images ../shared/data/imagenette.tar [--encoder lite0] [--count 1000] [--threads 2]

`torch` is the forward pass alone in torch, channels_last, on ready tensors. `runtime` is the forward pass alone of the
exported network in ONNX Runtime, on the same tensors. `folder` is what spice does with a folder: find, read, hash,
decode, crop and resize every file, write it to the store, read it, normalize and encode it. The three alternate, so
that other work on the machine affects all alike. Rates are medians over rounds.
"""

import argparse
import copy
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from spice.data import ingest
from spice.models.encoders import TorchEncoder, load_encoder
from spice.stages.encode import encode_plain
from stored import unpack

BATCH = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True, help="a tar of photos")
    parser.add_argument("--encoder", default="lite0", help="a torch network")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--cpu", action="store_true", help="measure processor time instead of wall time, for a busy machine"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.cpu else time.perf_counter
    encoder = load_encoder(options.encoder)
    assert isinstance(encoder, TorchEncoder)
    with tempfile.TemporaryDirectory() as scratch:
        unpack(options.images, Path(scratch) / "photos", options.count)
        work = {
            "torch": bare_torch(encoder, batches=max(1, options.count // BATCH // 3)),
            "runtime": bare_runtime(encoder, batches=max(1, options.count // BATCH)),
            "folder": folder_to_features(encoder, Path(scratch), workers=options.threads),
        }
        found: dict[str, list[float]] = {name: [] for name in work}
        for _ in range(options.rounds):
            for name, encode in work.items():
                begun = clock()
                found[name].append(encode() / (clock() - begun))
    rates = {name: round(statistics.median(each), 1) for name, each in found.items()}
    print(
        f"{encoder.name} at {encoder.size} px, images/s: " + ", ".join(f"{n} {rate:.0f}" for n, rate in rates.items())
    )
    print(f"folder / torch {rates['folder'] / rates['torch']:.2f}, / runtime {rates['folder'] / rates['runtime']:.2f}")


def bare_torch(encoder: TorchEncoder, *, batches: int) -> Callable[[], int]:
    module = torch.nn.utils.convert_conv2d_weight_memory_format(copy.deepcopy(encoder.module), torch.channels_last)
    ready = torch.randn(BATCH, 3, encoder.size, encoder.size).to(memory_format=torch.channels_last)

    def work() -> int:
        with torch.inference_mode():
            return sum(len(module(ready)) for _ in range(batches))

    return work


def bare_runtime(encoder: TorchEncoder, *, batches: int) -> Callable[[], int]:
    ready = torch.randn(BATCH, 3, encoder.size, encoder.size)
    encoder.encode(ready)  # exports the network, or reads it from the cache, before the clock starts
    return lambda: sum(len(encoder.encode(ready)) for _ in range(batches))


def folder_to_features(encoder: TorchEncoder, scratch: Path, *, workers: int) -> Callable[[], int]:
    def work() -> int:
        store = ingest(scratch / "photos", size=encoder.size, folder=scratch / "store", workers=workers)
        assert encode_plain(encoder, store).isfinite().all()
        shutil.rmtree(scratch / "store")
        return len(store)

    return work


if __name__ == "__main__":
    main()
