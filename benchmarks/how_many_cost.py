"""The time to find the number of groups: processor seconds of the search and of the merge tree, on one core.

    OMP_NUM_THREADS=1 python benchmarks/how_many_cost.py imagenette.npz --images 3000 60000

The file comes from `benchmarks/frozen_features.py encode`. For more images than it has, its features are repeated with
noise: a fifth of the standard deviation of every column.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from spice.neighbors import nearest
from spice.stages.groups.curve import NEIGHBORS
from spice.stages.groups.howmany import how_many, principal_components
from spice.stages.groups.merge_tree import merge_tree

NOISE = 0.2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("features", type=Path)
    parser.add_argument("--images", type=int, nargs="+", default=[3_000, 60_000])
    options = parser.parse_args()
    torch.set_num_threads(1)
    for count in options.images:
        features = sampled(np.load(options.features)["features"].astype(np.float32), count)
        start = time.process_time()
        answer = how_many(features)
        search = time.process_time() - start
        points = principal_components(features, np.random.default_rng([0, 1]))
        neighbors = nearest(torch.from_numpy(points), NEIGHBORS).index.numpy()  # a run has them anyway
        start = time.process_time()
        merge_tree(points, neighbors, seed=0)
        tree = time.process_time() - start
        print(f"{count:,} images: {answer.clusters} groups, search {search:.1f} s, tree {tree:.1f} s", flush=True)


def sampled(features: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """`count` of the features, sampled without replacement, or all of them repeated with noise."""
    random = np.random.default_rng(0)
    if count <= len(features):
        return features[np.sort(random.permutation(len(features))[:count])]
    repeated = features[np.arange(count) % len(features)]
    noise = random.standard_normal(repeated.shape, dtype=np.float32) * features.std(axis=0)
    return np.asarray(repeated + NOISE * noise, dtype=np.float32)


if __name__ == "__main__":
    main()
