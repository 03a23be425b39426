"""Labels for the third stage: those that neighbors confirm, and confident predictions (paper III-C).

Shapes: N images, S neighbors of each (the paper's N_s), B images in a batch, K clusters.
"""

import torch
from torch import Tensor

from spice.core.checks import check_integers, check_probs, check_threshold
from spice.core.prototypes import IGNORE


def consistency_ratio(labels: Tensor, neighbors: Tensor) -> Tensor:
    """r_i, the share of the S nearest images of image i that have its label: (N,) and (N, S) -> (N,).

    An image is not its own neighbor. So r_i is at most (n - 1) / S in a cluster of n images: with the paper's S = 100
    and threshold 0.95, no image of a cluster of fewer than 97 can be reliable.
    """
    if labels.ndim != 1 or neighbors.ndim != 2 or len(labels) != len(neighbors):
        shapes = f"{tuple(labels.shape)} and {tuple(neighbors.shape)}"
        raise ValueError(f"labels (N,) and neighbors (N, S) do not match: {shapes}")
    check_integers("labels", labels, lowest=0, below=torch.iinfo(torch.int64).max)
    check_integers("neighbors", neighbors, lowest=0, below=len(labels))
    agreeing = (labels[neighbors.long()] == labels.unsqueeze(dim=1)).sum(dim=1)
    return agreeing / neighbors.shape[1]  # a division, not mean(): 19 of 20 must be exactly 0.95 on every device


def reliable(ratio: Tensor, *, threshold: float = 0.95) -> Tensor:
    """Whether r_i > threshold, strictly: (N,) -> (N,) of bool. `authors_reliable` is the rule of the authors' code."""
    check_threshold(threshold)
    return ratio > threshold


def authors_reliable(
    ratio: Tensor, probs: Tensor, *, threshold: float, confidence: float = 0.99, generator: torch.Generator
) -> Tensor:
    """The rule of the authors' code: (N,) and (N, K) -> (N,) of bool.

    An image needs r_i >= threshold (0.90 or 0.99 there) and a probability above `confidence`. Then every cluster is
    subsampled to the size of the smallest, so a single cluster without such images leaves none at all.
    """
    check_threshold(threshold)
    check_threshold(confidence)
    check_probs(probs)
    surest, labels = probs.max(dim=1)
    kept = (ratio >= threshold) & (surest > confidence)
    smallest = int(labels[kept].bincount(minlength=probs.shape[1]).min())
    for cluster in range(probs.shape[1]):
        members = (kept & (labels == cluster)).nonzero().flatten()
        order = torch.randperm(len(members), generator=generator)
        kept[members[order[smallest:].to(members.device)]] = False
    return kept


def consistency_labels(probs: Tensor, *, threshold: float = 0.95) -> Tensor:
    """y^u = argmax(p_j) where max(p_j) >= threshold, IGNORE elsewhere: (..., B, K) -> (..., B)."""
    check_probs(probs)
    check_threshold(threshold)
    confident = probs.amax(dim=-1) >= threshold
    return torch.where(confident, probs.argmax(dim=-1), IGNORE)
