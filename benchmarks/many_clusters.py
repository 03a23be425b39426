"""Many clusters of few images through all stages: by default 200 clusters of 20 generated images.

    OMP_NUM_THREADS=1 python benchmarks/many_clusters.py [--clusters 200] [--each 20] [--seeds 0 1 2]

True classes are read for the scores alone. Seconds are processor seconds.
"""

import argparse
import json
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from joint import scores_of
from spice.data import Collection
from spice.errors import SpiceWarning
from spice.models.backbone import Backbone
from spice.models.encoders import TorchEncoder, register_encoder
from spice.pipeline import cluster
from spice.presets import standard_heads
from spice.runs import open_result
from spice.runs.artifacts import PROBABILITIES
from spice.settings import IMAGENET, AugmentSettings, JointSettings, RunSettings, ViewSettings
from spice.stages.reliability import labels_to_learn

SIZE = 12


def generated(classes: int, each: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images, each a pattern of nine colors that its class has, and noise; and their classes."""
    noise = torch.Generator().manual_seed(0)
    patterns = F.interpolate(torch.rand(classes, 3, 3, 3, generator=noise), size=SIZE, mode="bilinear")
    truth = torch.arange(classes).repeat_interleave(each)
    pixels = patterns[truth] + 0.15 * torch.randn(classes * each, 3, SIZE, SIZE, generator=noise)
    return (pixels.clamp(0, 1) * 255).byte().permute(0, 2, 3, 1).numpy(), truth.numpy()


class Patches(Backbone):
    """Two layers with random weights that see the nine patches of a made image apart."""

    features = 9 * 32

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.Conv2d(16, 32, 4, 4)

    def forward(self, images: Tensor) -> Tensor:
        patches: Tensor = self.second(F.relu(self.norm(self.first(images))))
        return patches.flatten(start_dim=1)


register_encoder("patches", lambda name, _: TorchEncoder(f"patches:{name}", Patches(), IMAGENET, size=SIZE))


def measure(clusters: int, each: int, seed: int, out: Path) -> dict[str, object]:
    images, truth = generated(clusters, each)
    augment = AugmentSettings(flip=False, color=False, rotation=False, shift=1, operations=2)
    second = RunSettings(
        encoder="patches:random",
        views=ViewSettings(augment=augment),
        heads=standard_heads(clusters).model_copy(update={"heads": 4}),
        seed=seed,
    )
    joint = JointSettings(steps=400, labeled=64, unlabeled=128, ema=None, augment=augment, checks=False)
    line: dict[str, object] = {"seed": seed, "images": len(images)}
    started = time.process_time()
    for name, settings in {"stage 2": second, "stage 3": second.model_copy(update={"joint": joint})}.items():
        cluster(images, settings, out, page=False)
        result = open_result(out)
        order = Collection.load(result.run / result.entry.folders["scan"]).numbers
        line[name] = scores_of(result, truth[order])
        if name == "stage 2":
            probs, neighbors = torch.from_numpy(np.load(result.need(PROBABILITIES))), torch.tensor(result.neighbors)
            learned = labels_to_learn(probs, neighbors, settings.reliability, seed=seed)
    assert result.joint is not None
    return line | {
        "clusters with labels": len(learned.cluster.unique()),  # type: ignore[no-untyped-call]
        "labels": result.joint.labeled,
        "failed checks": result.joint.failed_checks,
        "seconds": time.process_time() - started,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=200)
    parser.add_argument("--each", type=int, default=20)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpiceWarning)
        for seed in arguments.seeds:
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / "run"
                print(json.dumps(measure(arguments.clusters, arguments.each, seed, out)), flush=True)


if __name__ == "__main__":
    main()
