"""Prototype pseudo-labeling: the E-step of the second stage (paper III-B).

Shapes: M images in a batch, D feature width, K clusters, H heads, T = M // K images labeled per cluster.
Whatever takes probabilities (M, K) also takes those of all heads, (H, M, K), and answers with a leading H.
"""

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.core.checks import check_finite, check_probs, shape
from spice.core.labels import IGNORE
from spice.core.probs import likeliest, marked

Sizes = Literal["even", "nearest"]


class PseudoLabels(NamedTuple):
    """Which images of a batch to train on, and as which cluster.

    An image may be listed under several clusters ("overlap assignment"), so this is a list of P pairs. Where every
    cluster labels T images, P is K * T: first the images of cluster 0, nearest to its prototype first, then those of
    cluster 1, and so on.
    """

    image: Tensor  # (P,) or (H, P), position in the batch
    cluster: Tensor  # the same shape; IGNORE where another cluster keeps the image


def prototypes(features: Tensor, probs: Tensor, *, per_cluster: int) -> Tensor:
    """Mean feature of the `per_cluster` most confident images of each cluster: (K, D) or (H, K, D).

    Of equally confident images the first in the batch are taken.
    """
    _check_batch(features, probs)
    images = len(features)
    if not 1 <= per_cluster <= images:
        raise ValueError(f"a prototype is the mean of 1 to {images} images of this batch, not of {per_cluster}")
    return _prototypes(features, probs, per_cluster)


def prototype_labels(
    features: Tensor, probs: Tensor, *, center_ratio: float = 1.0, overlap: bool = True, sizes: Sizes = "even"
) -> PseudoLabels:
    """Label the M // K images nearest, by cosine, to each cluster's prototype with that cluster.

    Takes some 20 bytes of memory for each of the H * K * M similarities: go head by head where that is too much.

    Args:
        features: (M, D) of the plain images. The authors' code normalizes them to unit length before they are averaged,
            the paper does not say so: normalize them first if that is wanted.
        probs: (M, K) or (H, M, K) of the weakly transformed images.
        center_ratio: The prototype is the mean of the top center_ratio * M / K confident images, at least of one. The
            paper says 1, the authors' code 0.5; both label the M // K nearest.
        overlap: Whether an image may carry several labels. If not, it stays with the nearest of the prototypes that
            claim it, and its other places are labeled IGNORE.
        sizes: "even" is the paper's M // K. "nearest" is for groups of unequal size (ours): prototypes are the means of
            the images that are likeliest of each cluster, and every image is labeled by the nearest of them. After
            these M pairs come each cluster's M // 4K nearest (at least one) once more, so that no cluster starves.
    """
    _check_batch(features, probs)
    images, clusters = probs.shape[-2:]
    if images < clusters:
        raise ValueError(f"{images} images cannot label {clusters} clusters: take a batch of at least {clusters}")
    if not 0 < center_ratio <= 1:
        raise ValueError(f"the center ratio must be above 0 and at most 1, got {center_ratio}")

    # Cosines do not change with the features' scale, but lengths overflow, or vanish, where it is extreme.
    features = features / features.abs().amax().clamp(min=torch.finfo(features.dtype).tiny)
    if sizes == "nearest":
        similarity = _unit(_means(features, probs)) @ _unit(features).T  # (..., K, M)
        return _nearest(similarity, center_share=max(1, images // (4 * clusters)))
    centers = _prototypes(features, probs, max(1, int(center_ratio * images / clusters)))  # (..., K, D)
    similarity = _unit(centers) @ _unit(features).T  # (..., K, M)
    claimed = _top(similarity, images // clusters)  # (..., K, M)
    image = _nearest_first(similarity, claimed)  # (..., K, T)
    cluster = torch.arange(clusters, device=probs.device).unsqueeze(dim=1).expand_as(image).contiguous()
    if not overlap:
        keeper = similarity.masked_fill(claimed == 0, -torch.inf).argmax(dim=-2, keepdim=True)  # (..., 1, M)
        cluster = cluster.where(keeper.expand_as(claimed).gather(-1, image) == cluster, IGNORE)
    return PseudoLabels(image.flatten(start_dim=-2), cluster.flatten(start_dim=-2))


def _prototypes(features: Tensor, probs: Tensor, per_cluster: int) -> Tensor:
    confident = _top(probs.transpose(-2, -1).contiguous(), per_cluster)  # (..., K, M)
    # A product with zeros and ones beats gathering (H, K, T, D) rows five to nine times, and needs no such memory.
    return _mean(confident, features)


def _means(features: Tensor, probs: Tensor) -> Tensor:
    """Mean feature of the images that are likeliest of each cluster; its most confident image where there is none."""
    by_cluster = probs.transpose(-2, -1)  # (..., K, M)
    members = likeliest(by_cluster)
    empty = members.sum(dim=-1, keepdim=True) == 0  # (..., K, 1)
    if empty.any():
        first = torch.zeros_like(members).scatter_(-1, by_cluster.argmax(dim=-1, keepdim=True), 1.0)
        members = torch.where(empty, first, members)
    return _mean(members, features)


def _mean(marks: Tensor, features: Tensor) -> Tensor:
    """Mean feature of every cluster's marked images: (..., K, M) and (M, D) -> (..., K, D)."""
    count = marks.sum(dim=-1, keepdim=True)  # (..., K, 1)
    dtype = torch.promote_types(marks.dtype, features.dtype)  # sums overflow in float16
    return (marks.to(dtype) @ features.to(dtype) / count).to(features.dtype)


def _nearest(similarity: Tensor, *, center_share: int) -> PseudoLabels:
    """Every image with its nearest cluster, then every cluster with its nearest images: (..., K, M) -> (..., P)."""
    images = similarity.shape[-1]
    central = _top(similarity, center_share).flatten(start_dim=-2).bool()  # (..., K * M)
    central = central.nonzero()[:, -1].view(*central.shape[:-1], -1)  # (..., K * share)
    every = torch.arange(images, device=similarity.device).expand(*similarity.shape[:-2], -1)  # (..., M)
    image = torch.cat([every, central % images], dim=-1)
    return PseudoLabels(image, torch.cat([marked(likeliest(similarity)), central // images], dim=-1))


def _unit(vectors: Tensor) -> Tensor:
    # The usual bound of 1e-12 is zero in float16, where a vector of zeros would become NaN.
    return F.normalize(vectors, dim=-1, eps=max(1e-12, torch.finfo(vectors.dtype).tiny))


def _top(values: Tensor, count: int) -> Tensor:
    """Mark the `count` largest values of each row; of equal ones the first, on every device: (..., M) -> (..., M)."""
    # topk alone leaves open which of several equal values it takes, and a stable sort costs five times as much.
    smallest = _smallest_of_top(values, count)
    taken = torch.ge(values, smallest, out=torch.empty_like(values, dtype=torch.float32))
    surplus = taken.sum(dim=-1, keepdim=True) - count
    if surplus.any():  # several values equal the smallest: the last of them are too many
        level = values == smallest
        last = level.cumsum(dim=-1, dtype=torch.int32) > level.sum(dim=-1, keepdim=True) - surplus
        taken.masked_fill_(level & last, 0.0)
    return taken


def _smallest_of_top(values: Tensor, count: int) -> Tensor:
    """The `count`-th largest value of each row: (..., M) -> (..., 1)."""
    if values.device.type == "cpu" and values.dtype == torch.float32:
        ranked = values.detach().clone()
        place = ranked.shape[-1] - count
        ranked.numpy().partition(place, axis=-1)  # the same memory: vectorized there, a fourth of topk's time
        return ranked[..., place : place + 1]
    return values.topk(count, dim=-1, sorted=False).values.amin(dim=-1, keepdim=True)


def _nearest_first(similarity: Tensor, claimed: Tensor) -> Tensor:
    """The positions of each row's claimed images, by falling similarity: (..., K, M) -> (..., K, T)."""
    position = claimed.bool().nonzero()[:, -1].view(*claimed.shape[:-1], -1)  # every row claims equally many
    order = similarity.gather(-1, position).argsort(dim=-1, descending=True, stable=True)
    return position.gather(-1, order)


def _check_batch(features: Tensor, probs: Tensor) -> None:
    check_finite("features", features)
    check_probs(probs)
    if probs.ndim > 3:
        raise ValueError(f"probabilities must be (M, K) or (H, M, K), got {shape(probs)}")
    if len(features) != probs.shape[-2]:
        raise ValueError(f"features of {len(features)} images do not match probabilities of {probs.shape[-2]}")
