"""From a folder of JPEG files to features: images per second of the whole way, beside the bare forward pass.

    python benchmarks/encode.py --images ../shared/data/imagenette.tar [--count 1000] [--threads 2]

One run, three networks. `torch` is the bare forward pass in torch, channels_last, on ready tensors; `runtime` the bare
forward pass of the exported network on ONNX Runtime, on the same tensors; `folder` is what `spice` does with a folder:
find, read, hash, decode, crop and resize every file, keep it in the store, take it out, normalize, encode. The three
take turns, round after round, so that whatever else the machine does meets them all; the median round counts.
"""

import argparse
import copy
import shutil
import statistics
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from spice.data import ingest
from spice.models.backbone import Backbone
from spice.models.encoders import TorchEncoder, load_encoder
from spice.models.huggingface import ClassToken
from spice.models.networks import ResNet
from spice.settings import IMAGENET
from spice.stages.encode import encode_plain

BATCH = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True, help="a tar of photos")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu", action="store_true", help="processor time, not the clock's: for a busy machine")
    parser.add_argument("--only", choices=("lite0", "resnet18", "dinov2"), help="one network instead of all")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    clock = time.process_time if arguments.cpu else time.perf_counter
    encoders = {"lite0": lite0, "resnet18": resnet18, "dinov2": small_dinov2}
    print(
        "| network | px | torch | runtime | folder | folder / torch | folder / runtime |\n|---|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "photos"
        photos(arguments.images, folder, arguments.count)
        for name, make in encoders.items():
            if arguments.only in (None, name):
                # The transformer takes ten times as long per image, and its rate is known after fewer of them.
                share = arguments.count // 5 if name == "dinov2" else arguments.count
                row(
                    make(),
                    folder,
                    Path(scratch),
                    count=share,
                    rounds=arguments.rounds,
                    threads=arguments.threads,
                    clock=clock,
                )


def lite0() -> TorchEncoder:
    encoder = load_encoder("lite0")
    assert isinstance(encoder, TorchEncoder)
    return encoder


def resnet18() -> TorchEncoder:
    torch.manual_seed(0)
    return TorchEncoder("resnet18", ResNet(18), IMAGENET, size=160)


def small_dinov2() -> TorchEncoder:
    """DINOv2-small's shape with random weights: 12 layers of width 384, patches of 14 px."""
    from transformers import Dinov2Config, Dinov2Model

    torch.manual_seed(0)
    config = Dinov2Config(hidden_size=384, num_hidden_layers=12, num_attention_heads=6, image_size=518, patch_size=14)
    return TorchEncoder("dinov2-small", ClassToken(Dinov2Model(config), 154), IMAGENET, size=154)


def photos(archive: Path, folder: Path, count: int) -> None:
    folder.mkdir()
    with tarfile.open(archive) as tar:
        members = [member for member in tar if member.isfile()][:count]
        for number, member in enumerate(members):
            content = tar.extractfile(member)
            assert content is not None
            (folder / f"{number}.jpg").write_bytes(content.read())


def row(
    encoder: TorchEncoder,
    folder: Path,
    scratch: Path,
    *,
    count: int,
    rounds: int,
    threads: int,
    clock: Callable[[], float],
) -> None:
    some = scratch / f"{count}"
    if not some.exists():
        some.mkdir()
        for path in sorted(folder.iterdir())[:count]:
            shutil.copy(path, some)
    ready = torch.randn(BATCH, 3, encoder.size, encoder.size)

    def whole() -> int:
        store = ingest(some, size=encoder.size, folder=scratch / "store", workers=threads)
        features = encode_plain(encoder, store)
        assert features.isfinite().all()
        shutil.rmtree(scratch / "store")
        return len(store)

    module = torch.nn.utils.convert_conv2d_weight_memory_format(copy.deepcopy(encoder.module), torch.channels_last)
    batches = max(1, count // BATCH)
    bare_torch = repeated(lambda: forward(module, ready.to(memory_format=torch.channels_last)), max(1, batches // 3))
    bare_runtime = repeated(lambda: encoder.encode(ready), batches)
    rates: dict[str, list[float]] = {"torch": [], "runtime": [], "folder": []}
    encoder.encode(ready)  # exported, or found in the cache, before the clock starts
    for _ in range(rounds):
        for name, work in (("torch", bare_torch), ("runtime", bare_runtime), ("folder", whole)):
            begun = clock()
            done = work()
            rates[name].append(done / (clock() - begun))
    torch_rate, runtime, whole_rate = (statistics.median(rates[name]) for name in ("torch", "runtime", "folder"))
    print(
        f"| {encoder.name} | {encoder.size} | {torch_rate:.0f} | {runtime:.0f} | {whole_rate:.0f} "
        f"| {whole_rate / torch_rate:.2f} | {whole_rate / runtime:.2f} |",
        flush=True,
    )


def forward(module: Backbone, images: Tensor) -> Tensor:
    with torch.inference_mode():
        features: Tensor = module(images)
    return features


def repeated(once: Callable[[], Tensor], times: int) -> Callable[[], int]:
    def work() -> int:
        return sum(len(once()) for _ in range(times))

    return work


if __name__ == "__main__":
    main()
