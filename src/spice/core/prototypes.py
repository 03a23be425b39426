"""Prototype pseudo-labeling, the E-step of the second stage, as the paper writes it (III-B).

This is the reference. Training computes the same labels with `fast_prototypes`; tests compare the two.

Shapes: M images in a batch, D feature width, K clusters, H heads, T = M // K images labeled per cluster.
`prototypes` and `prototype_labels` take the probabilities of one head, (M, K), or of all heads, (H, M, K); for all
heads, results have a leading H.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.core.checks import check_batch

IGNORE = -1  # the label of an image that losses skip


class PseudoLabels(NamedTuple):
    """X^s: which images of a batch to train on, and as which cluster.

    An image may be listed under several clusters ("overlap assignment"), so this is a list of P = K * T pairs: first
    the images of cluster 0, nearest to its prototype first, then those of cluster 1, and so on.
    """

    image: Tensor  # (P,) or (H, P), position in the batch
    cluster: Tensor  # the same shape


def prototypes(features: Tensor, probs: Tensor, *, per_cluster: int) -> Tensor:
    """gamma_k, the mean of F_k = {f_i | i in argtopk(P[:, k], per_cluster)}: (K, D) or (H, K, D)."""
    check_batch(features, probs, per_cluster=per_cluster)
    confident = argtopk(probs.mT, per_cluster)  # (..., K, T)
    return features[confident].mean(dim=-2)  # (..., K, T, D) -> (..., K, D)


def prototype_labels(
    features: Tensor, probs: Tensor, *, center_ratio: float = 1.0, overlap: bool = True
) -> PseudoLabels:
    """X^s = {(x_i, k) | x_i in X^k, k = 1..K}, where X^k are the M // K images nearest, by cosine, to gamma_k.

    Args:
        features: (M, D) of the plain images. The authors' code normalizes them to unit length before it averages them;
            the paper does not mention this. Pass normalized features to get the same.
        probs: (M, K) or (H, M, K) of the weakly transformed images.
        center_ratio: A prototype is the mean of the center_ratio * M / K most confident images, at least one. The
            paper uses 1, the authors' code 0.5; both label the M // K nearest.
        overlap: Whether an image may have several labels. If not, every cluster still labels M // K images: an image
            that another cluster has taken is replaced by the next nearest one. The paper does not give the order. Here,
            pairs of an image and a prototype are taken by similarity, over all clusters (`assign_once`), so that the
            order of the clusters does not matter. The authors' code visits the clusters by number: each takes its best
            free images, for its prototype as well as for its labels.
    """
    check_batch(features, probs)
    images, clusters = probs.shape[-2:]
    features = rescaled(features)
    centers = prototypes(features, probs, per_cluster=prototype_size(images, clusters, center_ratio))  # (..., K, D)
    similarity = cosine(centers, features)  # (..., K, M)
    choose = argtopk if overlap else assign_once
    image = choose(similarity, images // clusters)  # X^k: (..., K, T)
    cluster = torch.arange(clusters, device=probs.device).unsqueeze(dim=1).expand_as(image).contiguous()
    return PseudoLabels(image.flatten(start_dim=-2), cluster.flatten(start_dim=-2))


def argtopk(values: Tensor, count: int) -> Tensor:
    """Positions of each row's `count` largest values, in descending order; ties in order of position."""
    return values.argsort(dim=-1, descending=True, stable=True)[..., :count]


def assign_once(similarity: Tensor, count: int) -> Tensor:
    """`count` images for every cluster, nearest first, and no image twice: (..., K, M) -> (..., K, count).

    Greedy: visits all pairs of a cluster and an image by descending similarity (ties by cluster, then by image), and
    takes a pair if the image has no cluster yet and the cluster has fewer than `count` images.
    """
    if similarity.ndim > 2:
        return torch.stack([assign_once(head, count) for head in similarity])
    clusters, images = similarity.shape
    chosen, free = [list[int]() for _ in range(clusters)], [True] * images
    for pair in argtopk(similarity.flatten(), clusters * images).tolist():
        cluster, image = divmod(pair, images)
        if free[image] and len(chosen[cluster]) < count:
            chosen[cluster].append(image)
            free[image] = False
    return torch.tensor(chosen, device=similarity.device)


def cosine(centers: Tensor, features: Tensor) -> Tensor:
    """Cosine similarity of every center and every image: (..., K, D) and (M, D) -> (..., K, M)."""
    return _unit_length(centers) @ _unit_length(features).T


def prototype_size(images: int, clusters: int, center_ratio: float) -> int:
    """The number of images that a prototype averages: center_ratio * M / K, at least one."""
    if not 0 < center_ratio <= 1:
        raise ValueError(f"the center ratio must be above 0 and at most 1, got {center_ratio}")
    return max(1, int(center_ratio * images / clusters))


def rescaled(features: Tensor) -> Tensor:
    """Features scaled to a largest value of 1, so that squares neither overflow nor vanish; cosines do not change."""
    return features / features.abs().amax().clamp(min=torch.finfo(features.dtype).tiny)


def _unit_length(vectors: Tensor) -> Tensor:
    # The usual bound of 1e-12 is zero in float16, where a vector of zeros would become NaN.
    return F.normalize(vectors, dim=-1, eps=max(1e-12, torch.finfo(vectors.dtype).tiny))
