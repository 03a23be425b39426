"""Many clusters of few images through stages 2 and 3: 200 clusters of 20 generated images, unless told otherwise.

    OMP_NUM_THREADS=1 python benchmarks/many_clusters.py [--clusters 200] [--each 20] [--seeds 0 1 2]

True kinds are read for the scores alone. Seconds are processor seconds.
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
from torch import Tensor, nn

from joint import Result, labels_for, scores_of, third_stage
from spice.engine.run import Run
from spice.errors import SpiceWarning
from spice.models.backbone import Backbone
from spice.models.encoders import TorchEncoder
from spice.presets import standard_heads
from spice.settings import IMAGENET, AugmentSettings, JointSettings, ViewSettings
from spice.stages.encode import probabilities
from spice.stages.heads.train import train_heads
from spice.stages.views import encode_views


class Made:
    """Images of so many kinds, each a pattern of nine colors, and noise."""

    channels, size = 3, 12

    def __init__(self, kinds: int, each: int) -> None:
        noise = torch.Generator().manual_seed(0)
        patterns = F.interpolate(torch.rand(kinds, 3, 3, 3, generator=noise), size=self.size, mode="bilinear")
        self.kind = torch.arange(kinds).repeat_interleave(each)
        pixels = patterns[self.kind] + 0.15 * torch.randn(kinds * each, 3, self.size, self.size, generator=noise)
        self.pixels = (pixels.clamp(0, 1) * 255).byte()

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, positions: Tensor) -> Tensor:
        return self.pixels[positions]


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


def measure(clusters: int, each: int, seeds: list[int]) -> None:
    images = Made(clusters, each)
    encoder = TorchEncoder("patches", Patches(), IMAGENET, size=images.size)
    augment = AugmentSettings(flip=False, color=False, rotation=False, shift=1, operations=2)
    truth = images.kind.numpy()
    heads = standard_heads(clusters).model_copy(update={"heads": 4})
    joint = JointSettings(steps=400, labeled=64, unlabeled=128, ema=None, augment=augment)
    for seed in seeds:
        started = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            views = encode_views(images, encoder, ViewSettings(augment=augment), Run(seed=seed, folder=Path(folder)))
            head = train_heads(views, heads, Run(seed=seed)).head
            features = torch.from_numpy(np.array(views.plain, dtype=np.float32))
        second = Result(features, probabilities(head, features))
        found = third_stage(images, encoder, head, second, settings=joint, seed=seed)
        kept = labels_for(second, seed)
        line = {
            "seed": seed,
            "images": len(images),
            "clusters with labels": len(set(kept.cluster.tolist())),
            "labels": len(kept.image),
            "stage 2": scores_of(second, truth),
            "stage 3": scores_of(Result(found.features, found.probs), truth),
            "failed checks": found.failed_checks,
            "seconds": time.process_time() - started,
        }
        print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=200)
    parser.add_argument("--each", type=int, default=20)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpiceWarning)
        measure(arguments.clusters, arguments.each, arguments.seeds)


if __name__ == "__main__":
    main()
