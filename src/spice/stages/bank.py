"""A bank of training images, stored with the model: r_i of paper III-C for new images.

Shapes: N training images, R of them kept, Q new images, D feature width, K clusters, S neighbors.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from spice.neighbors import nearest
from spice.randomness import generator

# A bank should be a few MB: it has this many bytes of features, or this many images per cluster if that is more.
KEPT_BYTES = 8 << 20
KEPT_PER_CLUSTER = 50
# A new image is unlike all training images if its similarity to the nearest kept image is below this quantile of the
# same similarity among the kept images. So about this share of similar new images is a false alarm.
UNLIKE_QUANTILE = 0.01
# float16 can represent features in this range.
SMALL, LARGE = 0.01, 30_000.0


class Bank(NamedTuple):
    """The training images that are kept."""

    features: Tensor  # (R, D) float16
    cluster: Tensor  # (R,) int64
    neighbors: int  # S
    unlike_below: float  # similarity to the nearest kept image


class Comparison(NamedTuple):
    """The comparison of new images with the bank."""

    reliability: Tensor  # (Q,) share of the S nearest kept images in the predicted cluster
    similarity: Tensor  # (Q,) to the nearest kept image
    unlike: Tensor  # (Q,) bool: unlike all training images


def build_bank(features: Tensor, cluster: Tensor, *, clusters: int, neighbors: int, seed: int) -> Bank:
    """A bank of all training images, or a sample of a large collection, from features (N, D) and clusters (N,).

    For a sample, the number of neighbors is reduced in proportion, so that they cover the same neighborhood.
    """
    room = max(KEPT_BYTES // (2 * features.shape[1]), KEPT_PER_CLUSTER * clusters)
    chosen = torch.randperm(len(features), generator=generator(seed, "bank"))[:room].sort().values
    kept = _scaled_for_float16(features[chosen]).half()
    reduced = max(1, min(round(neighbors * len(chosen) / len(features)), len(chosen) - 1))
    closest = nearest(kept.float(), 1).similarity[:, 0]  # (R,)
    return Bank(kept, cluster[chosen].long(), reduced, closest.double().quantile(UNLIKE_QUANTILE).item())


def _scaled_for_float16(features: Tensor) -> Tensor:
    """Features in the range of float16: scaled by a power of two if necessary, which does not change cosines."""
    largest = float(features.abs().max())
    return features if SMALL < largest < LARGE else features * 2.0 ** -math.floor(math.log2(max(largest, 1e-38)))


def compare_with_bank(bank: Bank, features: Tensor, cluster: Tensor) -> Comparison:
    """The reliability of predictions `cluster` (Q,) for features (Q, D), and their similarity to the bank."""
    near = nearest(bank.features.float(), bank.neighbors, queries=features, method="exact")
    agreeing = (bank.cluster[near.index] == cluster.unsqueeze(dim=1)).sum(dim=1)
    similarity = near.similarity[:, 0]
    return Comparison(agreeing / bank.neighbors, similarity, similarity.double() < bank.unlike_below)
