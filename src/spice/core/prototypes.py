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
    cluster 1, and so on. `prototype_table` tells the same without an order.
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
    similarity = _similarity(features, probs, center_ratio, sizes)  # (..., K, M)
    claimed = _claimed(similarity, sizes)
    image = _nearest_first(similarity, claimed)  # (..., K, T)
    cluster = torch.arange(image.shape[-2], device=probs.device).unsqueeze(dim=1).expand_as(image).contiguous()
    if sizes == "even" and not overlap:
        cluster = cluster.where(_kept(similarity, claimed).gather(-1, image) == 1, IGNORE)
    image, cluster = image.flatten(start_dim=-2), cluster.flatten(start_dim=-2)
    if sizes == "nearest":
        every = torch.arange(similarity.shape[-1], device=probs.device).expand(*similarity.shape[:-2], -1)  # (..., M)
        image = torch.cat([every, image], dim=-1)
        cluster = torch.cat([marked(likeliest(similarity)), cluster], dim=-1)
    return PseudoLabels(image, cluster)


def prototype_table(
    features: Tensor, probs: Tensor, *, center_ratio: float = 1.0, overlap: bool = True, sizes: Sizes = "even"
) -> Tensor:
    """The labels of `prototype_labels` as the losses take them: how often an image has each, (M, K) or (H, M, K).

    Made to be learned from: no loss has to gather what belongs to a pair, nor its gradient to scatter it back.
    """
    similarity = _similarity(features, probs, center_ratio, sizes)  # (..., K, M)
    claimed = _claimed(similarity, sizes)
    if sizes == "nearest":
        return (claimed + likeliest(similarity)).mT
    return (claimed if overlap else _kept(similarity, claimed)).mT


def _similarity(features: Tensor, probs: Tensor, center_ratio: float, sizes: Sizes) -> Tensor:
    """Cosine of every image's features and every cluster's prototype: (..., K, M)."""
    _check_batch(features, probs)
    images, clusters = probs.shape[-2:]
    if images < clusters:
        raise ValueError(f"{images} images cannot label {clusters} clusters: take a batch of at least {clusters}")
    if not 0 < center_ratio <= 1:
        raise ValueError(f"the center ratio must be above 0 and at most 1, got {center_ratio}")
    # Cosines do not change with the features' scale, but lengths overflow, or vanish, where it is extreme.
    features = features / features.abs().amax().clamp(min=torch.finfo(features.dtype).tiny)
    if sizes == "nearest":
        centers = _means(features, probs)  # (..., K, D)
    else:
        centers = _prototypes(features, probs, max(1, int(center_ratio * images / clusters)))
    return _unit(centers) @ _unit(features).T


def _claimed(similarity: Tensor, sizes: Sizes) -> Tensor:
    """Mark the images that every cluster labels because they are its nearest: (..., K, M) -> (..., K, M)."""
    clusters, images = similarity.shape[-2:]
    return _top(similarity, images // clusters if sizes == "even" else max(1, images // (4 * clusters)))


def _kept(similarity: Tensor, claimed: Tensor) -> Tensor:
    """Of several clusters that claim an image, the nearest keeps it: (..., K, M) -> (..., K, M)."""
    return likeliest(similarity.where(claimed == 1, -torch.inf)) * claimed


def _prototypes(features: Tensor, probs: Tensor, per_cluster: int) -> Tensor:
    confident = _top(probs.transpose(-2, -1).contiguous(), per_cluster)  # (..., K, M)
    # A product with zeros and ones beats gathering (H, K, T, D) rows five to nine times, and needs no such memory.
    return _mean(confident, features, count=per_cluster)


def _means(features: Tensor, probs: Tensor) -> Tensor:
    """Mean feature of the images that are likeliest of each cluster; its most confident image where there is none."""
    by_cluster = probs.transpose(-2, -1)  # (..., K, M)
    members = likeliest(by_cluster)
    count = members.sum(dim=-1, keepdim=True)  # (..., K, 1)
    if not count.all():
        first = torch.zeros_like(members).scatter_(-1, by_cluster.argmax(dim=-1, keepdim=True), 1.0)
        members = torch.where(count == 0, first, members)
    return _mean(members, features, count=count.clamp(min=1))


def _mean(marks: Tensor, features: Tensor, *, count: Tensor | int) -> Tensor:
    """Mean feature of every cluster's marked images, of which there are `count`: (..., K, M), (M, D) -> (..., K, D)."""
    dtype = torch.promote_types(marks.dtype, features.dtype)  # sums overflow in float16
    return (marks.to(dtype) @ features.to(dtype) / count).to(features.dtype)


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
