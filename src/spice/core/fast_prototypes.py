"""The labels of `prototypes` for all heads at once, computed several times faster: what training uses (paper III-B).

- Sets of images are marks, 1.0 or 0.0: a product with marks replaces gathering (H, K, T, D) features.
- The largest values of a row come from a partition, not from a sort.
- Labels can be a table, so that losses gather nothing and their gradients scatter nothing back.

Shapes: M images in a batch, D feature width, K clusters, H heads, T = M // K images labeled per cluster. Shapes
(..., K, M) also lie in memory like this, clusters before images; `probs` says why.
"""

import torch
from torch import Tensor

from spice.core.checks import check_batch, check_enough_images, check_per_cluster
from spice.core.labels import IGNORE
from spice.core.probs import one_hot_argmax
from spice.core.prototypes import PseudoLabels, cosine, prototype_size, rescaled


def fast_prototypes(features: Tensor, probs: Tensor, *, per_cluster: int) -> Tensor:
    """What `prototypes` returns: (K, D) or (H, K, D)."""
    check_batch(features, probs)
    check_per_cluster(per_cluster, len(features))
    confident = mark_largest(probs.mT.contiguous(), per_cluster)  # (..., K, M)
    return mean_of_marked(confident, features, count=per_cluster)


def fast_prototype_labels(
    features: Tensor, probs: Tensor, *, center_ratio: float = 1.0, overlap: bool = True
) -> PseudoLabels:
    """What `prototype_labels` returns. Needs some 20 bytes of memory for each of the H * K * M similarities."""
    similarity = _similarity(features, probs, center_ratio)  # (..., K, M)
    claimed = _claimed(similarity)
    image = marked_images(similarity, claimed)  # (..., K, T)
    cluster = torch.arange(image.shape[-2], device=probs.device).unsqueeze(dim=1).expand_as(image).contiguous()
    if not overlap:
        cluster = cluster.where(_nearest_claims(similarity, claimed).gather(-1, image) == 1, IGNORE)
    return PseudoLabels(image.flatten(start_dim=-2), cluster.flatten(start_dim=-2))


def prototype_table(features: Tensor, probs: Tensor, *, center_ratio: float = 1.0, overlap: bool = True) -> Tensor:
    """The labels of `prototype_labels` as a table for the losses: 1 where an image has a label, (M, K) or (H, M, K)."""
    similarity = _similarity(features, probs, center_ratio)  # (..., K, M)
    claimed = _claimed(similarity)
    return (claimed if overlap else _nearest_claims(similarity, claimed)).mT


def mark_largest(values: Tensor, count: int) -> Tensor:
    """Mark the `count` largest values of each row, of equal ones the first: (..., M) -> (..., M)."""
    # topk alone leaves open which of several equal values it takes, and a stable sort costs five times as much.
    smallest = _smallest_of_largest(values, count)
    taken = torch.ge(values, smallest, out=torch.empty_like(values, dtype=torch.float32))
    surplus = taken.sum(dim=-1, keepdim=True) - count
    if surplus.any():  # several values equal the smallest: the last of them are too many
        level = values == smallest
        last = level.cumsum(dim=-1, dtype=torch.int32) > level.sum(dim=-1, keepdim=True) - surplus
        taken.masked_fill_(level & last, 0.0)
    return taken


def mean_of_marked(marks: Tensor, features: Tensor, *, count: Tensor | int) -> Tensor:
    """Mean feature of each cluster's `count` marked images: (..., K, M) and (M, D) -> (..., K, D)."""
    dtype = torch.promote_types(marks.dtype, features.dtype)  # sums overflow in float16
    return (marks.to(dtype) @ features.to(dtype) / count).to(features.dtype)


def marked_images(similarity: Tensor, marks: Tensor) -> Tensor:
    """Positions of the marked images of each row, nearest first; as many in every row: (..., K, M) -> (..., K, T)."""
    position = marks.bool().nonzero()[:, -1].view(*marks.shape[:-1], -1)
    order = similarity.gather(-1, position).argsort(dim=-1, descending=True, stable=True)
    return position.gather(-1, order)


def _similarity(features: Tensor, probs: Tensor, center_ratio: float) -> Tensor:
    """Cosine of every image's features and every cluster's prototype: (..., K, M)."""
    check_batch(features, probs)
    check_enough_images(probs)
    images, clusters = probs.shape[-2:]
    count = prototype_size(images, clusters, center_ratio)
    features = rescaled(features)
    confident = mark_largest(probs.mT.contiguous(), count)
    return cosine(mean_of_marked(confident, features, count=count), features)


def _claimed(similarity: Tensor) -> Tensor:
    """Mark the M // K images nearest to each prototype."""
    clusters, images = similarity.shape[-2:]
    return mark_largest(similarity, images // clusters)


def _nearest_claims(similarity: Tensor, claimed: Tensor) -> Tensor:
    """Of several clusters that claim an image, mark only the nearest: (..., K, M) -> (..., K, M)."""
    return one_hot_argmax(similarity.where(claimed == 1, -torch.inf)) * claimed


def _smallest_of_largest(values: Tensor, count: int) -> Tensor:
    """The `count`-th largest value of each row: (..., M) -> (..., 1)."""
    if values.device.type == "cpu" and values.dtype == torch.float32:
        ranked = values.detach().clone()
        place = ranked.shape[-1] - count
        ranked.numpy().partition(place, axis=-1)  # in the tensor's memory; vectorized, a fourth of topk's time
        return ranked[..., place : place + 1]
    return values.topk(count, dim=-1, sorted=False).values.amin(dim=-1, keepdim=True)
