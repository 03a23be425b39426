"""Reliable pseudo-labels: those that an image's neighbors share (paper III-C).

Shapes: N images, S neighbors of each (the paper's N_s).
"""

import torch
from torch import Tensor

from spice.core.checks import check_integers, check_threshold, shape


def consistency_ratio(labels: Tensor, neighbors: Tensor) -> Tensor:
    """r_i, the share of image i's S nearest images that have its label: (N,) and (N, S) -> (N,).

    An image is not its own neighbor. So r_i is at most (n - 1) / S in a cluster of n images: with the paper's S = 100
    and threshold 0.95, no image of a cluster of fewer than 97 can be reliable.
    """
    if labels.ndim != 1 or neighbors.ndim != 2 or len(labels) != len(neighbors):
        raise ValueError(f"labels (N,) and neighbors (N, S) do not match: {shape(labels)} and {shape(neighbors)}")
    check_integers("labels", labels, lowest=0, count=torch.iinfo(torch.int64).max)
    check_integers("neighbors", neighbors, lowest=0, count=len(labels))
    agreeing = (labels[neighbors.long()] == labels.unsqueeze(dim=1)).sum(dim=1)
    return agreeing / neighbors.shape[1]  # a division, not mean(): 19 of 20 must be 0.95 to the bit on every device


def reliable(ratio: Tensor, *, threshold: float = 0.95) -> Tensor:
    """Whether r_i > threshold, strictly: (N,) -> (N,) of bool.

    The authors' code asks for >= 0.90 or >= 0.99 instead, for a probability above 0.99, and cuts every cluster to the
    size of the smallest.
    """
    check_threshold(threshold)
    if threshold == 1:
        raise ValueError("no ratio is above 1: the threshold must be below it")
    if ratio.numel() == 0 or not ((ratio >= 0) & (ratio <= 1)).all():
        raise ValueError("ratios must lie in 0..1, at least one of them")
    return ratio > threshold
