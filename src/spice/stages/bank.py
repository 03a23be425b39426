"""Training images kept with a model, by which new images are judged (paper III-C, for new images).

Shapes: N training images, R of them kept, Q new images, D feature width, S neighbors.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from spice.neighbors import nearest
from spice.randomness import generator

# A model should be a few MB: it keeps so many bytes of features, or so many images of each cluster if that is more.
KEPT_BYTES = 8 << 20
KEPT_PER_CLUSTER = 50
# A new image is "unlike anything seen" if it is farther from every kept image than all but this share of the kept
# images are from one another. No label is needed, and the rate of false alarms is known.
UNLIKE_QUANTILE = 0.01
# Between these, float16 holds features without loss of range.
SMALL, LARGE = 0.01, 30_000.0


class Bank(NamedTuple):
    """The training images that a model keeps."""

    features: Tensor  # (R, D) float16
    cluster: Tensor  # (R,) int64
    neighbors: int  # S
    unlike_below: float  # similarity to the nearest kept image


class Comparison(NamedTuple):
    """New images compared with the kept ones."""

    reliability: Tensor  # (Q,) share of the S nearest kept images in the predicted cluster
    similarity: Tensor  # (Q,) to the nearest
    unlike: Tensor  # (Q,) bool: farther from everything than training images are


def build_bank(features: Tensor, cluster: Tensor, *, clusters: int, neighbors: int, seed: int) -> Bank:
    """Keep the training images, or a random part of a large collection: (N, D), (N,) -> bank.

    If only a part is kept, the number of neighbors shrinks in proportion: they lie in the same neighborhood.
    """
    room = max(KEPT_BYTES // (2 * features.shape[1]), KEPT_PER_CLUSTER * clusters)
    chosen = torch.randperm(len(features), generator=generator(seed, "bank"))[:room].sort().values
    kept = _within_half(features[chosen]).half()
    fewer = max(1, min(round(neighbors * len(chosen) / len(features)), len(chosen) - 1))
    closest = nearest(kept.float(), 1).similarity[:, 0]  # (R,)
    return Bank(kept, cluster[chosen].long(), fewer, closest.double().quantile(UNLIKE_QUANTILE).item())


def _within_half(features: Tensor) -> Tensor:
    """Features that float16 can hold: extreme ones are scaled by a power of two, which changes no cosine."""
    largest = float(features.abs().max())
    return features if SMALL < largest < LARGE else features * 2.0 ** -math.floor(math.log2(max(largest, 1e-38)))


def compare_with_bank(bank: Bank, features: Tensor, cluster: Tensor) -> Comparison:
    """Judge new images with features (Q, D) that were put into `cluster` (Q,)."""
    near = nearest(bank.features.float(), bank.neighbors, queries=features, method="exact")
    agreeing = (bank.cluster[near.index] == cluster.unsqueeze(dim=1)).sum(dim=1)
    similarity = near.similarity[:, 0]
    return Comparison(agreeing / bank.neighbors, similarity, similarity.double() < bank.unlike_below)
