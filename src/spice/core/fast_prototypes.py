"""The E-step as training computes it: for all heads at once, several times faster than `prototypes` (paper III-B).

- Sets of images are marks, 1.0 or 0.0: a product with marks replaces gathering (H, K, T, D) features.
- The largest values of a row come from a partition, not from a sort.
- Labels can be a table, so that losses gather nothing and their gradients scatter nothing back.

`prototype_table` and `fast_prototype_labels` give the labels of `prototype_labels`: M // K images for every cluster,
which suits groups of about equal size. `nearest_table` and `nearest_labels` suit unequal ones (not in the paper): a
prototype is the mean of the images that are most likely in its cluster, and every image takes the label of the nearest
prototype. Each cluster's M // 4K nearest images (at least one) get its label once more, so that no cluster starves.
With an `evenness` above zero, sizes between these extremes: images are assigned by optimal transport to clusters that
should be of even size, at a price (`size_offsets`).

Shapes: M images in a batch, D feature width, K clusters, H heads, T images labeled per cluster. Shapes (..., K, M) also
lie in memory like this, clusters before images; `probs` says why.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.core.checks import check_batch
from spice.core.probs import one_hot_argmax, one_hot_labels
from spice.core.prototypes import PseudoLabels, cosine, prototype_size, rescaled

# Entropy of the transport in units of cosine similarity, and rounds of its solver.
SMOOTHING, ROUNDS = 0.1, 10


def prototype_table(features: Tensor, probs: Tensor, *, center_ratio: float = 1.0, overlap: bool = True) -> Tensor:
    """The labels of `prototype_labels` as a table for the losses: 1 where an image has a label, (M, K) or (H, M, K)."""
    return _even_claims(features, probs, center_ratio, overlap=overlap)[1].mT


def fast_prototype_labels(
    features: Tensor, probs: Tensor, *, center_ratio: float = 1.0, overlap: bool = True
) -> PseudoLabels:
    """What `prototype_labels` returns. Needs some 20 bytes of memory for each of the H * K * M similarities."""
    image, cluster = _pairs(*_even_claims(features, probs, center_ratio, overlap=overlap))  # (..., K, T)
    return PseudoLabels(image.flatten(start_dim=-2), cluster.flatten(start_dim=-2))


def nearest_table(features: Tensor, probs: Tensor, *, evenness: float = 0.0) -> Tensor:
    """How often an image has each label by the nearest prototype, (M, K) or (H, M, K)."""
    similarity, central = _nearest_prototypes(features, probs)
    similarity = similarity + size_offsets(similarity, evenness=evenness) if evenness else similarity
    return (central + one_hot_argmax(similarity)).mT


def nearest_labels(features: Tensor, probs: Tensor, *, evenness: float = 0.0) -> PseudoLabels:
    """One pair for each of the M images, then K * T more, cluster by cluster and nearest first: (P,) or (H, P)."""
    similarity, central = _nearest_prototypes(features, probs)
    image, cluster = _pairs(similarity, central)  # (..., K, T)
    similarity = similarity + size_offsets(similarity, evenness=evenness) if evenness else similarity
    every = torch.arange(similarity.shape[-1], device=probs.device).expand(*similarity.shape[:-2], -1)  # (..., M)
    nearest = one_hot_labels(one_hot_argmax(similarity))  # (..., M)
    return PseudoLabels(
        torch.cat([every, image.flatten(start_dim=-2)], dim=-1),
        torch.cat([nearest, cluster.flatten(start_dim=-2)], dim=-1),
    )


def size_offsets(similarity: Tensor, *, evenness: float, smoothing: float = SMOOTHING, rounds: int = ROUNDS) -> Tensor:
    """What to add to each cluster's similarities (..., K, M) so that small clusters get more images: (..., K, 1).

    Optimal transport with a relaxed target: Q maximizes <Q, similarity> + smoothing * H(Q) - evenness * KL(q | even),
    where every image gives 1 / M and q are the clusters' sums of Q. Its solution is softmax((similarity + offset) /
    smoothing) over clusters, with offset = evenness * ln(even / q): without `evenness` every image goes to the nearest
    prototype, and with a large one all clusters get as much (the paper's rule).
    """
    clusters, pull = similarity.shape[-2], evenness / (evenness + smoothing)
    scores = similarity.float() / smoothing
    offset = torch.zeros_like(scores[..., :1])
    for _ in range(rounds):
        share = (scores + offset).softmax(dim=-2).mean(dim=-1, keepdim=True)  # q: (..., K, 1)
        offset = pull * (offset - (clusters * share).clamp(min=1e-6).log())
    return smoothing * offset


def fast_prototypes(features: Tensor, probs: Tensor, *, per_cluster: int) -> Tensor:
    """What `prototypes` returns: (K, D) or (H, K, D)."""
    check_batch(features, probs, per_cluster=per_cluster)
    return _mean_of_marked(_mark_largest(probs.mT.contiguous(), per_cluster), features, count=per_cluster)


def _even_claims(features: Tensor, probs: Tensor, center_ratio: float, *, overlap: bool) -> tuple[Tensor, Tensor]:
    """Cosine of every image and every prototype, and marks of the M // K images it labels: (..., K, M) each."""
    check_batch(features, probs)
    images, clusters = probs.shape[-2:]
    features, count = rescaled(features), prototype_size(images, clusters, center_ratio)
    confident = _mark_largest(probs.mT.contiguous(), count)
    similarity = cosine(_mean_of_marked(confident, features, count=count), features)
    choose = _mark_largest if overlap else _mark_once
    return similarity, choose(similarity, images // clusters)


def _mark_once(similarity: Tensor, count: int) -> Tensor:
    """Mark the images that `assign_once` chooses: (..., K, M) -> (..., K, M).

    Every image applies to the nearest cluster that has not refused it, and every cluster keeps the nearest `count` of
    those that apply, until no image is refused (deferred acceptance, Gale and Shapley 1962). Both sides rank pairs by
    the same order, so that there is only one stable assignment: the one that takes pairs in this order.
    """
    *leading, clusters, images = similarity.shape
    near, preferred = similarity.view(-1, clusters, images).mT.sort(dim=2, descending=True, stable=True)  # (H, M, K)
    # One more place at the end, without a limit, for images that all clusters have refused.
    near, preferred = F.pad(near, (0, 1), value=-torch.inf), F.pad(preferred, (0, 1), value=clusters)
    refusals = torch.zeros_like(preferred[..., :1])  # (H, M, 1)
    while True:
        cluster = preferred.gather(2, refusals).squeeze(dim=2)  # (H, M), the one that the image applies to
        order = near.gather(2, refusals).squeeze(dim=2).argsort(dim=1, descending=True, stable=True)
        order = order.gather(1, cluster.gather(1, order).argsort(dim=1, stable=True))  # by cluster, then nearest first
        sizes = cluster.new_zeros(len(cluster), clusters + 1).scatter_add_(1, cluster, torch.ones_like(cluster))
        applied = cluster.gather(1, order)
        place = torch.arange(images, device=order.device) - (sizes.cumsum(dim=1) - sizes).gather(1, applied)
        refused = (place >= count) & (applied < clusters)
        if not refused.any():
            marks = similarity.new_zeros(len(cluster), clusters + 1, images, dtype=torch.float32)
            return marks.scatter_(1, cluster.unsqueeze(dim=1), 1.0)[:, :clusters].reshape(*leading, clusters, images)
        refusals.squeeze(dim=2).scatter_add_(1, order, refused.long())


def _nearest_prototypes(features: Tensor, probs: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine of every image and every prototype, and marks of the M // 4K nearest: (..., K, M) each."""
    check_batch(features, probs)
    features = rescaled(features)
    by_cluster = probs.mT  # (..., K, M)
    members = one_hot_argmax(by_cluster)
    count = members.sum(dim=-1, keepdim=True)  # (..., K, 1)
    if not count.all():  # a cluster that is the most likely one of no image: take its most confident image
        surest = torch.zeros_like(members).scatter_(-1, by_cluster.argmax(dim=-1, keepdim=True), 1.0)
        members = torch.where(count == 0, surest, members)
    similarity = cosine(_mean_of_marked(members, features, count=count.clamp(min=1)), features)
    clusters, images = similarity.shape[-2:]
    return similarity, _mark_largest(similarity, max(1, images // (4 * clusters)))


def _pairs(similarity: Tensor, marks: Tensor) -> PseudoLabels:
    """The marked images of each cluster, nearest first; as many for every cluster: (..., K, M) -> (..., K, T)."""
    position = marks.bool().nonzero()[:, -1].view(*marks.shape[:-1], -1)
    order = similarity.gather(-1, position).argsort(dim=-1, descending=True, stable=True)
    image = position.gather(-1, order)
    cluster = torch.arange(image.shape[-2], device=image.device).unsqueeze(dim=1).expand_as(image).contiguous()
    return PseudoLabels(image, cluster)


def _mean_of_marked(marks: Tensor, features: Tensor, *, count: Tensor | int) -> Tensor:
    """Mean feature of each cluster's `count` marked images: (..., K, M) and (M, D) -> (..., K, D)."""
    dtype = torch.promote_types(marks.dtype, features.dtype)  # sums overflow in float16
    return (marks.to(dtype) @ features.to(dtype) / count).to(features.dtype)


def _mark_largest(values: Tensor, count: int) -> Tensor:
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


def _smallest_of_largest(values: Tensor, count: int) -> Tensor:
    """The `count`-th largest value of each row: (..., M) -> (..., 1)."""
    if values.device.type == "cpu" and values.dtype == torch.float32:
        ranked = values.detach().clone()
        place = ranked.shape[-1] - count
        ranked.numpy().partition(place, axis=-1)  # in the tensor's memory; vectorized, a fourth of topk's time
        return ranked[..., place : place + 1]
    return values.topk(count, dim=-1, sorted=False).values.amin(dim=-1, keepdim=True)
