"""A third stage on cached features: does an adapter that learns from reliable labels improve on stage 2?

    OMP_NUM_THREADS=1 python benchmarks/adapter.py --folder /tmp/frozen [--collections trash flowers] [--seed 0]

`--folder` is that of `frozen_features.py encode`. Anchors are chosen without labels: of every cluster the top share by
neighbor agreement, with as many neighbors as leave the largest total of agreeing neighbors (after DCBoost). Then a
network of two layers learns anchors by cross-entropy, all clusters equally often, and other images by FixMatch.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frozen_features import opened, spice, table
from spice.core import consistency_ratio
from spice.evaluate import score
from spice.neighbors import nearest
from spice.presets import standard_heads
from spice.randomness import generator

NEIGHBORS = (5, 10, 20, 40, 80)
STEPS, LABELED, UNLABELED, RATE, SURE = 300, 128, 384, 1e-3, 0.95
DROPOUT, NOISE = 0.3, 0.5


def anchors(labels: Tensor, neighbors: Tensor, share: float) -> Tensor:
    """Of every cluster the top share by neighbor agreement: positions."""
    total = {k: k * int((consistency_ratio(labels, neighbors[:, :k]) == 1).sum()) for k in NEIGHBORS}
    count = max(total, key=lambda k: total[k])
    ratio = consistency_ratio(labels, neighbors[:, :count])
    members = [(labels == cluster).nonzero().flatten() for cluster in labels.unique()]  # type: ignore[no-untyped-call]
    best = [each[ratio[each].argsort(descending=True)[: max(3, int(share * len(each)))]] for each in members]
    return torch.cat(best)


def adapted(features: Tensor, labels: Tensor, chosen: Tensor, *, clusters: int, seed: int) -> Tensor:
    """Labels (N,) after training on the chosen ones."""
    random = generator(seed, "adapter")
    inputs = F.normalize(features, dim=1)
    inputs = (inputs - inputs.mean(dim=0)) / inputs.std()
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(inputs.shape[1], 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, clusters))
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0.05)
    weight = 1.0 / labels[chosen].bincount(minlength=clusters)[labels[chosen]]
    for _ in range(STEPS):
        some = chosen[torch.multinomial(weight, LABELED, replacement=True, generator=random)]
        other = torch.randint(len(inputs), (UNLABELED,), generator=random)
        loss = F.cross_entropy(network(noisy(inputs[some], 0.1, random)), labels[some])
        with torch.no_grad():
            sure, target = network(noisy(inputs[other], 0.1, random)).softmax(dim=1).max(dim=1)
        strong = network(noisy(inputs[other], NOISE, random))
        loss = loss + (F.cross_entropy(strong, target, reduction="none") * (sure >= SURE)).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    network.eval()
    with torch.no_grad():
        return network(inputs).argmax(dim=1)  # type: ignore[no-any-return]


def noisy(inputs: Tensor, noise: float, random: torch.Generator) -> Tensor:
    """A view in feature space: noise, and where it is strong, features dropped."""
    kept = torch.rand(inputs.shape, generator=random) >= (DROPOUT if noise == NOISE else 0.0)
    return (inputs + noise * torch.randn(inputs.shape, generator=random)) * kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--collections", nargs="+", default=["trash", "flowers", "cifar10-test", "caltech"])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows: dict[str, list[float]] = {"stage 2": [], "top 30 %": [], "top 60 %": []}
    for name in options.collections:
        features, truth = opened(options.folder, name)
        clusters = int(truth.max()) + 1
        before = torch.from_numpy(spice(features, standard_heads(clusters), options.seed).astype(np.int64))
        neighbors = nearest(torch.from_numpy(features), max(NEIGHBORS)).index
        rows["stage 2"].append(score(before.numpy(), truth).acc)
        for share, row in ((0.3, "top 30 %"), (0.6, "top 60 %")):
            chosen = anchors(before, neighbors, share)
            after = adapted(torch.from_numpy(features), before, chosen, clusters=clusters, seed=options.seed)
            rows[row].append(score(after.numpy(), truth).acc)
    table("ACC", options.collections, rows)


if __name__ == "__main__":
    main()
