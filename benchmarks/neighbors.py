"""Exact nearest neighbors, compared with scikit-learn and faiss, on one thread.

    OMP_NUM_THREADS=1 taskset -c 0 python benchmarks/neighbors.py     (on an idle core)

Seconds are processor seconds. For large collections, only some queries are timed and the time is scaled up, since the
time of all three searches is proportional to the number of queries.
"""

import time
from collections.abc import Callable

import faiss
import torch
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.nn.functional import normalize

from spice.neighbors import nearest, recall

COUNT = 100
SIZES = [(10_000, 128), (10_000, 512), (60_000, 128), (60_000, 512)]
TIMED = 3_000  # queries, for the larger collections


def main() -> None:
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    with threadpool_limits(1):
        compare()


def compare() -> None:
    print(f"\n| N | D | spice, s | scikit-learn, s | faiss flat, s | times faster than the better |\n{'|---' * 6}|")
    for images, width in SIZES:
        features = normalize(torch.randn(images, width), dim=1)
        count = images if images <= 10_000 else TIMED
        queries = features[torch.randperm(images)[:count]]
        ours, index = timed(exact_index, features, queries)
        sklearn, rival = timed(sklearn_index, features, queries)
        flat, other = timed(faiss_index, features, queries)
        if min(recall(index, rival), recall(index, other)) < 0.9999:
            raise RuntimeError("the three do not find the same neighbors")
        scale = images / count
        row = f"{ours * scale:.1f} | {sklearn * scale:.1f} | {flat * scale:.1f} | {min(sklearn, flat) / ours:.2f}"
        print(f"| {images:,} | {width} | {row} |", flush=True)
    print(f"\nThe faster of two runs. At 60,000 images, {TIMED:,} random queries are timed and the time scaled up.")


def timed(search: Callable[[Tensor, Tensor], Tensor], features: Tensor, queries: Tensor) -> tuple[float, Tensor]:
    """Processor seconds of the faster of two runs, and the result."""
    seconds = []
    for _ in range(2):
        started = time.process_time()
        result = search(features, queries)
        seconds.append(time.process_time() - started)
    return min(seconds), result


def exact_index(features: Tensor, queries: Tensor) -> Tensor:
    return nearest(features, COUNT, queries=queries, method="exact").index


def sklearn_index(features: Tensor, queries: Tensor) -> Tensor:
    """scikit-learn's fastest search. For unit vectors, distance and cosine give the same neighbors."""
    model = NearestNeighbors(n_neighbors=COUNT, algorithm="brute").fit(features.numpy())
    return torch.from_numpy(model.kneighbors(queries.numpy(), return_distance=False))


def faiss_index(features: Tensor, queries: Tensor) -> Tensor:
    index = faiss.IndexFlatIP(features.shape[1])
    index.add(features.numpy())
    return torch.from_numpy(index.search(queries.numpy(), COUNT)[1])


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
