"""The E-step as training computes it: for all heads at once, several times faster than `prototypes` (paper III-B).

- Sets of images are masks of 1.0 and 0.0: a product with a mask replaces gathering (H, K, T, D) features.
- The largest values of a row come from a partition, not from a sort.
- Labels can be a table, so that losses need no gather, and their gradients no scatter.

`prototype_table` and `fast_prototype_labels` give the labels of `prototype_labels`: M // K images for every cluster,
which suits groups of about equal size.

`nearest_table` and `nearest_labels` suit groups of unequal size (not in the paper). A prototype is the mean of the
images whose most likely cluster it is, and every image takes the label of the nearest prototype. The M // 4K images
nearest to each prototype (at least one) get its label a second time, so that no cluster is left without labels. With
an `evenness` above zero, sizes lie in between: optimal transport assigns the images and penalizes uneven sizes
(`size_offsets`).

If the shares of the groups are known, M * share replaces M // K in both rules (`sizes`), and transport must meet the
shares exactly.

Shapes: M images in a batch, D feature width, K clusters, H heads, T images labeled per cluster. Tensors (..., K, M) are
contiguous, clusters before images (see `probs`).
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.core.checks import check_batch
from spice.core.probs import one_hot_argmax, one_hot_labels
from spice.core.prototypes import PseudoLabels, cosine, prototype_size, rescaled
from spice.core.sizes import by_size, quotas

Shares = Sequence[float]
# Weight of the entropy in the transport, in units of cosine similarity; rounds of its solver with a penalty, and with
# a fixed target.
SMOOTHING, ROUNDS, FIXED_ROUNDS = 0.1, 10, 30


def prototype_table(
    features: Tensor, probs: Tensor, *, center_ratio: float = 1.0, overlap: bool = True, shares: Shares | None = None
) -> Tensor:
    """The labels of `prototype_labels` as a table for the losses: 1 where an image has a label, (M, K) or (H, M, K).

    Args:
        shares: (K,) of the groups, in any order; None: equal, as in the paper.
    """
    return _similarity_and_marks(features, probs, center_ratio, overlap=overlap, shares=shares)[1].mT


def fast_prototype_labels(
    features: Tensor, probs: Tensor, *, center_ratio: float = 1.0, overlap: bool = True, shares: Shares | None = None
) -> PseudoLabels:
    """The same as `prototype_labels`. Needs about 20 bytes of memory for each of the H * K * M similarities."""
    return _pairs(*_similarity_and_marks(features, probs, center_ratio, overlap=overlap, shares=shares))


def nearest_table(features: Tensor, probs: Tensor, *, evenness: float = 0.0, shares: Shares | None = None) -> Tensor:
    """How many times each image has each label, by the nearest prototype: (M, K) or (H, M, K)."""
    similarity, central = _nearest_prototypes(features, probs, shares)
    return (central + one_hot_argmax(_shifted(similarity, probs, evenness, shares))).mT


def nearest_labels(
    features: Tensor, probs: Tensor, *, evenness: float = 0.0, shares: Shares | None = None
) -> PseudoLabels:
    """One pair for each of the M images, then the repeated labels, by cluster and nearest first: (P,) or (H, P)."""
    similarity, central = _nearest_prototypes(features, probs, shares)
    repeated = _pairs(similarity, central)
    every = torch.arange(similarity.shape[-1], device=probs.device).expand(*similarity.shape[:-2], -1)  # (..., M)
    nearest = one_hot_labels(one_hot_argmax(_shifted(similarity, probs, evenness, shares)))  # (..., M)
    return PseudoLabels(torch.cat([every, repeated.image], dim=-1), torch.cat([nearest, repeated.cluster], dim=-1))


def _shifted(similarity: Tensor, probs: Tensor, evenness: float, shares: Shares | None) -> Tensor:
    """Similarities (..., K, M) plus the offsets that balance sizes."""
    if shares is not None:
        target = by_size(sorted(shares, reverse=True), probs).unsqueeze(dim=-1)  # (..., K, 1)
        return similarity + size_offsets(similarity, evenness=math.inf, target=target, rounds=FIXED_ROUNDS)
    return similarity + size_offsets(similarity, evenness=evenness) if evenness else similarity


def size_offsets(similarity: Tensor, *, evenness: float, target: Tensor | None = None, rounds: int = ROUNDS) -> Tensor:
    """What to add to each cluster's similarities (..., K, M) so that small clusters get more images: (..., K, 1).

    Optimal transport with a relaxed target: Q maximizes <Q, similarity> + SMOOTHING * H(Q) - evenness * KL(q | target),
    where every image gives 1 / M and q are the clusters' sums of Q. Its solution is softmax((similarity + offset) /
    SMOOTHING) over clusters, with offset = evenness * ln(target / q). If `evenness` is 0, every image goes to the
    nearest prototype. The larger it is, the closer the clusters come to equal sizes (the paper's rule). If it is
    infinite, q is the target.

    Args:
        target: (..., K, 1) shares of the clusters; None: 1 / K each.
    """
    pull = 1.0 if math.isinf(evenness) else evenness / (evenness + SMOOTHING)
    inverse_target = similarity.shape[-2] if target is None else 1 / target
    scores = similarity.float() / SMOOTHING
    offset = torch.zeros_like(scores[..., :1])
    for _ in range(rounds):
        share = (scores + offset).softmax(dim=-2).mean(dim=-1, keepdim=True)  # q: (..., K, 1)
        offset = pull * (offset - (inverse_target * share).clamp(min=1e-6).log())
    return SMOOTHING * offset


def fast_prototypes(features: Tensor, probs: Tensor, *, per_cluster: int) -> Tensor:
    """The same as `prototypes`: (K, D) or (H, K, D)."""
    check_batch(features, probs, per_cluster=per_cluster)
    return _mean_of_marked(_mark_largest(probs.mT.contiguous(), per_cluster), features, count=per_cluster)


def _similarity_and_marks(
    features: Tensor, probs: Tensor, center_ratio: float, *, overlap: bool, shares: Shares | None
) -> tuple[Tensor, Tensor]:
    """Cosine of every prototype and image, and a mask of the images that it labels: (..., K, M) each."""
    check_batch(features, probs)
    images, clusters = probs.shape[-2:]
    center: Tensor | int = prototype_size(images, clusters, center_ratio)
    count: Tensor | int = images // clusters
    if shares is not None:
        center = by_size(quotas(images, shares, ratio=center_ratio), probs).unsqueeze(dim=-1)  # (..., K, 1)
        count = by_size(quotas(images, shares), probs).unsqueeze(dim=-1)
    features = rescaled(features)
    confident = _mark_largest(probs.mT.contiguous(), center)
    similarity = cosine(_mean_of_marked(confident, features, count=center), features)
    choose = _mark_largest if overlap else _mark_once
    return similarity, choose(similarity, count)


def _mark_once(similarity: Tensor, count: Tensor | int) -> Tensor:
    """Mask of the images that `assign_once` chooses: (..., K, M) -> (..., K, M).

    Deferred acceptance (Gale and Shapley 1962): every image applies to the nearest cluster that has not refused it, and
    every cluster keeps the nearest `count` applicants, until no image is refused. Both sides rank pairs in the same
    order, so the greedy assignment is the only stable one.
    """
    *leading, clusters, images = similarity.shape
    near, preferred = similarity.view(-1, clusters, images).mT.sort(dim=2, descending=True, stable=True)  # (H, M, K)
    # The last "cluster", without a limit, takes the images that all others have refused.
    near, preferred = F.pad(near, (0, 1), value=-torch.inf), F.pad(preferred, (0, 1), value=clusters)
    refusals = torch.zeros_like(preferred[..., :1])  # (H, M, 1)
    limit = refusals.new_zeros(*leading, clusters, 1) + count  # (..., K, 1)
    limit = F.pad(limit.view(-1, clusters), (0, 1), value=images)  # (H, K + 1)
    while True:
        cluster = preferred.gather(2, refusals).squeeze(dim=2)  # (H, M), to which the image applies
        order = near.gather(2, refusals).squeeze(dim=2).argsort(dim=1, descending=True, stable=True)
        order = order.gather(1, cluster.gather(1, order).argsort(dim=1, stable=True))  # by cluster, then nearest first
        sizes = cluster.new_zeros(len(cluster), clusters + 1).scatter_add_(1, cluster, torch.ones_like(cluster))
        applied = cluster.gather(1, order)
        place = torch.arange(images, device=order.device) - (sizes.cumsum(dim=1) - sizes).gather(1, applied)
        refused = place >= limit.gather(1, applied)
        if not refused.any():
            marks = similarity.new_zeros(len(cluster), clusters + 1, images, dtype=torch.float32)
            return marks.scatter_(1, cluster.unsqueeze(dim=1), 1.0)[:, :clusters].reshape(*leading, clusters, images)
        refusals.squeeze(dim=2).scatter_add_(1, order, refused.long())


def _nearest_prototypes(features: Tensor, probs: Tensor, shares: Shares | None) -> tuple[Tensor, Tensor]:
    """Cosine of every prototype and image, and marks of the M // 4K nearest: (..., K, M) each.

    With `shares`, the M * share / 4 nearest are marked.
    """
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
    nearest: Tensor | int = max(1, images // (4 * clusters))
    if shares is not None:
        nearest = by_size(quotas(images, shares, ratio=0.25), probs).unsqueeze(dim=-1)
    return similarity, _mark_largest(similarity, nearest)


def _pairs(similarity: Tensor, marks: Tensor) -> PseudoLabels:
    """The marked images, by cluster and nearest first; every head has equally many: (..., K, M) -> (..., P)."""
    *leading, _, images = marks.shape
    place = marks.flatten(start_dim=-2).bool().nonzero()[:, -1].view(*leading, -1)  # (..., P) in K * M
    order = similarity.flatten(start_dim=-2).gather(-1, place).argsort(dim=-1, descending=True, stable=True)
    place = place.gather(-1, order)
    place = place.gather(-1, place.div(images, rounding_mode="floor").argsort(dim=-1, stable=True))
    return PseudoLabels(place % images, place.div(images, rounding_mode="floor"))


def _mean_of_marked(marks: Tensor, features: Tensor, *, count: Tensor | int) -> Tensor:
    """Mean feature of each cluster's `count` marked images: (..., K, M) and (M, D) -> (..., K, D)."""
    dtype = torch.promote_types(marks.dtype, features.dtype)  # sums overflow in float16
    return (marks.to(dtype) @ features.to(dtype) / count).to(features.dtype)


def _mark_largest(values: Tensor, count: Tensor | int) -> Tensor:
    """Mark the `count` largest values of each row; ties go to the first: (..., M) -> (..., M).

    `count` is one number for all rows, or one for each, (..., 1).
    """
    # Not topk, which may return any of several equal values, nor a stable sort, which costs five times as much.
    smallest = _smallest_of_largest(values, count)
    marks = torch.ge(values, smallest, out=torch.empty_like(values, dtype=torch.float32))
    surplus = marks.sum(dim=-1, keepdim=True) - count
    if surplus.any():  # several values equal the smallest: drop the last of them
        tied = values == smallest
        last = tied.cumsum(dim=-1, dtype=torch.int32) > tied.sum(dim=-1, keepdim=True) - surplus
        marks.masked_fill_(tied & last, 0.0)
    return marks


def _smallest_of_largest(values: Tensor, count: Tensor | int) -> Tensor:
    """The `count`-th largest value of each row: (..., M) -> (..., 1)."""
    if isinstance(count, Tensor):
        return values.sort(dim=-1, descending=True).values.gather(-1, count - 1)
    if values.device.type == "cpu" and values.dtype == torch.float32:
        ranked = values.detach().clone()
        place = ranked.shape[-1] - count
        ranked.numpy().partition(place, axis=-1)  # in place; vectorized, a quarter of topk's time
        return ranked[..., place : place + 1]
    return values.topk(count, dim=-1, sorted=False).values.amin(dim=-1, keepdim=True)
