"""Time of the E-step for all heads at once, against a loop over heads and against its two matrix products.

    OMP_NUM_THREADS=1 python benchmarks/prototype_labels.py [--heads 50] [--images 6000] [--width 1280] [--clusters 10]

Times are of the processor, not of the clock, so that a busy machine blurs them less; the best of the rounds counts.
"""

import argparse
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.core import prototype_labels, prototype_table
from spice.core.fast_prototypes import fast_prototype_labels

ROUNDS = 5


def head_by_head(features: Tensor, probs: Tensor) -> Tensor:
    """The E-step as one writes it down: gather, average, compare, for one head after the other."""
    share = len(features) // probs.shape[2]
    nearest = []
    for head in probs:
        centers = features[head.topk(share, dim=0).indices].mean(dim=0)  # (T, K, D) -> (K, D)
        similarity = F.normalize(centers, dim=1) @ F.normalize(features, dim=1).T  # (K, M)
        nearest.append(similarity.topk(share, dim=1).indices.flatten())
    return torch.stack(nearest)


def milliseconds(work: Callable[[], object]) -> float:
    """Processor time of the quickest round."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return 1000 * min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("heads", 50), ("images", 6000), ("width", 1280), ("clusters", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(arguments.images, arguments.width, generator=generator)
    logits = torch.randn(arguments.heads, arguments.images, arguments.clusters, generator=generator)
    probs, sure = logits.mul(5).softmax(dim=2), logits.mul(200).softmax(dim=2)
    rows = arguments.heads * arguments.clusters
    masks, centers = torch.randn(rows, arguments.images), torch.randn(rows, arguments.width)
    products = milliseconds(lambda: (masks @ features, centers @ features.T))
    print(f"{arguments}\n{'':40}{'ms':>8}{'ratio':>8}")
    for name, work in (
        ("the two matrix products alone", lambda: (masks @ features, centers @ features.T)),
        ("prototype_table, all heads", lambda: prototype_table(features, probs)),
        ("fast_prototype_labels, all heads", lambda: fast_prototype_labels(features, probs)),
        ("fast_prototype_labels, saturated (ties)", lambda: fast_prototype_labels(features, sure)),
        ("fast_prototype_labels, overlap=False", lambda: fast_prototype_labels(features, probs, overlap=False)),
        ("prototype_labels, head by head", lambda: [prototype_labels(features, head) for head in probs]),
        ("head by head, with a gather", lambda: head_by_head(features, probs)),
    ):
        spent = milliseconds(work)
        print(f"{name:40}{spent:8.0f}{spent / products:8.1f}")


if __name__ == "__main__":
    main()
