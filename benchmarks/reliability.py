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
from numpy.typing import NDArray
from safetensors.torch import load_file

from spice.errors import SpiceWarning
from spice.evaluate import from_folders, matched_labels
from spice.models.heads import Head
from spice.runs import Result, open_result
from spice.runs.artifacts import FEATURES, HEAD, NEIGHBORS
from spice.settings import ReliabilitySettings
from spice.stages.encode import probabilities
from spice.stages.reliability import judge
from stage2 import opened

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


def row(name: str, result: Result, truth: NDArray[np.int64]) -> str:
    """Of the head of stage 2, also where the result is refined."""
    head = Head.of(load_file(result.need(HEAD)))
    labels = probabilities(head, torch.from_numpy(np.load(result.need(FEATURES)))).argmax(dim=1)
    neighbors = torch.from_numpy(np.load(result.need(NEIGHBORS)))
    trust = judge(labels, neighbors, ReliabilitySettings(), clusters=head.clusters)
    right = matched_labels(labels.numpy(), truth) == truth
    order = trust.ratio.argsort(descending=True, stable=True).numpy()
    kept = trust.reliable.numpy()
    figures = [right[order[: round(share * len(order))]].mean() for share in SHARES]
    figures += [kept.mean(), right[kept].mean()]
    return f"| {name} | {len(truth):,} | " + " | ".join(f"{value:.3f}" for value in figures) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--collections", nargs="*", default=["imagenette", "cifar10-test", "fashion-test"])
    parser.add_argument("--runs", type=Path, nargs="*", default=[], help="run folders, with images in class folders")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    columns = ["collection", "images", *(f"best {share:.0%}" for share in SHARES), "r > 0.95: share", "right"]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|", flush=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpiceWarning)
        for collection in (opened(arguments.folder, name) for name in arguments.collections):
            result = collection.result(collection.settings(seed=arguments.seed))
            print(row(collection.name, result, collection.truth), flush=True)
        for run in arguments.runs:
            result = open_result(run)
            print(row(run.name, result, from_folders(result.labels.path).labels), flush=True)


if __name__ == "__main__":
    main()
