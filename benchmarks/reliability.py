"""How accuracy follows reliability, on the results of stage 2. Prints a table of docs/reliability.md.

    python benchmarks/stage2.py views --data ../shared/data --folder /tmp/stage2          (lite0; encode once)
    python benchmarks/reliability.py --folder /tmp/stage2 [--runs spice-demo/digits.spice]

Labels are read for the last columns alone. An image is right if its cluster is matched to its class, one to one over
all images. Sorted by r, images with the same r are in order of content.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from joint import Result, Truth, judged, second_stage
from spice.errors import SpiceWarning
from spice.evaluate import from_folders, matched_labels
from spice.models.heads import Head
from spice.runs import read_labels
from spice.stages.encode import probabilities

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


def row(place: Path, seed: int) -> str:
    result, truth = second_result(place, seed)
    trust = judged(result)
    right = matched_labels(result.probs.argmax(dim=1).numpy(), truth) == truth
    order = trust.ratio.argsort(descending=True, stable=True).numpy()
    kept = trust.reliable.numpy()
    figures = [right[order[: round(share * len(order))]].mean() for share in SHARES]
    figures += [kept.mean(), right[kept].mean()]
    return f"| {place.name} | {len(truth):,} | " + " | ".join(f"{value:.3f}" for value in figures) + " |"


def second_result(place: Path, seed: int) -> tuple[Result, Truth]:
    """Of a folder of views, or of a run folder whose images lie in folders named by their class."""
    if (place / "truth.npy").exists():
        truth: Truth = np.load(place / "truth.npy").astype(np.int64)
        return second_stage(place, int(truth.max()) + 1, seed)[1], truth
    features = torch.from_numpy(np.load(place / "features.npy"))
    head = Head.of(load_file(place / "head.safetensors"))
    return Result(features, probabilities(head, features)), from_folders(read_labels(place).path).labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--collections", nargs="*", default=["imagenette", "cifar10-test", "fashion-test"])
    parser.add_argument("--runs", type=Path, nargs="*", default=[], help="run folders, with images in class folders")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    columns = ["collection", "images", *(f"best {share:.0%}" for share in SHARES), "r > 0.95: share", "right"]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|", flush=True)
    for place in [*(arguments.folder / name for name in arguments.collections), *arguments.runs]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SpiceWarning)
            print(row(place, arguments.seed), flush=True)


if __name__ == "__main__":
    main()
