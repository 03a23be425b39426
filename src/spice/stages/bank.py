"""A bank of training images in the model, to judge how reliable its predictions are (paper III-C, for new images).

Shapes: N training images, R of them kept, Q new images, D feature width, S neighbors.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from spice.neighbors import nearest
from spice.randomness import generator

# A model should be a few MB: it keeps this many bytes of features, or this many images per cluster if that is more.
KEPT_BYTES = 8 << 20
KEPT_PER_CLUSTER = 50
# A new image is unlike all training images if its nearest kept image is farther away than the nearest one is from all
# but this share of the kept images. This needs no labels, and the rate of false alarms is known.
UNLIKE_QUANTILE = 0.01
# Within this range, float16 can represent features.
SMALL, LARGE = 0.01, 30_000.0


class Bank(NamedTuple):
    """The training images that a model keeps."""

    features: Tensor  # (R, D) float16
    cluster: Tensor  # (R,) int64
    neighbors: int  # S
    unlike_below: float  # similarity to the nearest kept image


class Comparison(NamedTuple):
    """New images compared with the bank."""

    reliability: Tensor  # (Q,) share of the S nearest kept images in the predicted cluster
    similarity: Tensor  # (Q,) to the nearest
    unlike: Tensor  # (Q,) bool: unlike all training images


def build_bank(features: Tensor, cluster: Tensor, *, clusters: int, neighbors: int, seed: int) -> Bank:
    """Keep the training images, or a random sample of a large collection: (N, D), (N,) -> bank.

    With a sample, the number of neighbors shrinks in proportion, so that they span the same neighborhood.
    """
    room = max(KEPT_BYTES // (2 * features.shape[1]), KEPT_PER_CLUSTER * clusters)
    chosen = torch.randperm(len(features), generator=generator(seed, "bank"))[:room].sort().values
    kept = _scaled_for_float16(features[chosen]).half()
    fewer_neighbors = max(1, min(round(neighbors * len(chosen) / len(features)), len(chosen) - 1))
    closest = nearest(kept.float(), 1).similarity[:, 0]  # (R,)
    return Bank(kept, cluster[chosen].long(), fewer_neighbors, closest.double().quantile(UNLIKE_QUANTILE).item())


def _scaled_for_float16(features: Tensor) -> Tensor:
    """Features in the range of float16: if any is outside, all are scaled by a power of two, which keeps cosines."""
    largest = float(features.abs().max())
    return features if SMALL < largest < LARGE else features * 2.0 ** -math.floor(math.log2(max(largest, 1e-38)))


def compare_with_bank(bank: Bank, features: Tensor, cluster: Tensor) -> Comparison:
    """How reliable the predictions `cluster` (Q,) for features (Q, D) are, and how similar these are to the bank."""
    near = nearest(bank.features.float(), bank.neighbors, queries=features, method="exact")
    agreeing = (bank.cluster[near.index] == cluster.unsqueeze(dim=1)).sum(dim=1)
    similarity = near.similarity[:, 0]
    return Comparison(agreeing / bank.neighbors, similarity, similarity.double() < bank.unlike_below)
