"""The losses of the three stages (paper III-A to III-C, Appendix A and the ablation of the loss).

Shapes: B images, D projection width, Q keys in the queue, M pseudo-labeled images, K clusters, H heads,
L labeled and U unlabeled images. The stage-2 losses take one head, (M, K), or all, (H, M, K): one loss per head. Their
labels are clusters, (M,) or (H, M), or a table of the logits' shape: how many times an image has each
(`prototype_table`).
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.core.checks import check_integers, check_probs
from spice.core.probs import cluster_probs
from spice.core.prototypes import IGNORE
from spice.core.sizes import by_size


def info_nce(query: Tensor, key: Tensor, queue: Tensor, *, temperature: float = 0.2) -> Tensor:
    """-ln(exp(z·z+ / t) / (sum_i exp(z·z-_i / t) + exp(z·z+ / t))), the mean over the batch.

    Args:
        query: (B, D) z, of unit length as the projection leaves it.
        key: (B, D) z+, the moving average's projection of the other view.
        queue: (Q, D) z-, keys of earlier batches.
        temperature: t.
    """
    if query.shape != key.shape or len(queue) == 0:
        raise ValueError(
            f"need keys of shape {tuple(query.shape)} and a queue, got {tuple(key.shape)} and {len(queue)}"
        )
    positive = (query * key).sum(dim=1, keepdim=True)  # (B, 1)
    negative = query @ queue.T  # (B, Q)
    logits = torch.cat([positive, negative], dim=1) / temperature
    return F.cross_entropy(logits, torch.zeros(len(query), dtype=torch.long, device=query.device))


def double_softmax_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy after two softmaxes, the loss of the second stage: (M, K) -> scalar, (H, M, K) -> (H,).

    Not a mistake: the second softmax, inside the cross-entropy, damps the gradient where the head is unsure, since
    pseudo-labels are often wrong there (Appendix A). A perfect head's loss is ln(e + K - 1) - 1, not zero.
    """
    return cross_entropy(cluster_probs(logits), labels)


def temperature_cross_entropy(logits: Tensor, labels: Tensor, *, temperature: float) -> Tensor:
    """Cross-entropy of softmax(logits / temperature), TCE in the ablation (best there: 0.2)."""
    return cross_entropy(logits / temperature, labels)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Plain cross-entropy, the mean over the labels that are not IGNORE: (M, K) -> scalar, (H, M, K) -> (H,).

    The loss of a head whose labels are all IGNORE is 0, if another head has labels.
    """
    if labels.ndim == logits.ndim:
        by_cluster = logits.transpose(-2, -1)  # (..., K, M), the layout that `cluster_probs` explains
        each = -(by_cluster.log_softmax(dim=-2) * labels.transpose(-2, -1)).sum(dim=-2)  # (..., M)
        kept = labels.sum(dim=(-2, -1))
    else:
        each = _cross_entropies(logits, labels)
        kept = (labels.long() != IGNORE).sum(dim=-1)  # long: as uint8, -1 is 255
    if not kept.any():
        raise ValueError(f"there is nothing to learn from: none of {each.numel()} images has a label")
    return (each.sum(dim=-1) / kept.clamp(min=1)).to(logits.dtype)


def negative_entropy(probs: Tensor, weight: Tensor | None = None) -> Tensor:
    """sum_k m_k ln m_k, where m is the mean probability over the batch; smallest, -ln K, if clusters are equally full.

    (M, K) -> scalar, (H, M, K) -> (H,). The paper needs this term only for 200 clusters. `weight`, (M,) or (H, M), is
    the weight of each image in the mean; by default, all are equal.
    """
    mean = _mean_probs(probs, weight)
    # 0 ln 0 = 0; without the clamp, the gradient there would be infinite.
    return (mean * mean.clamp(min=torch.finfo(mean.dtype).tiny).log()).sum(dim=-1)


def size_divergence(probs: Tensor, shares: Sequence[float], weight: Tensor | None = None) -> Tensor:
    """KL divergence of the mean probability m from given shares pi: sum_k m_k ln(m_k / pi_k).

    Equal to `negative_entropy` plus ln K if all shares are 1 / K. The largest share goes to the largest cluster, and so
    on (see `sizes`).
    """
    mean = _mean_probs(probs, weight)  # (..., K)
    pi = by_size(sorted(shares, reverse=True), mean.unsqueeze(dim=-2)).to(mean.dtype)
    tiny = torch.finfo(mean.dtype).tiny
    return (mean * (mean.clamp(min=tiny).log() - pi.clamp(min=tiny).log())).sum(dim=-1)


def joint_loss(labeled_logits: Tensor, labels: Tensor, unlabeled_logits: Tensor, consistency: Tensor) -> Tensor:
    """Mean cross-entropy of the reliable labels over L, plus that of the consistency labels over U.

    The second mean is over all U unlabeled images, including those with the label IGNORE, so that a few confident
    predictions have little weight.

    Args:
        labeled_logits: (L, K) of weak views of reliable images.
        labels: (L,) their labels, none of them IGNORE.
        unlabeled_logits: (U, K) of strong views of any images.
        consistency: (U,) from `consistency_labels` of the same images' weak views.
    """
    check_integers("labels", labels, lowest=0, below=labeled_logits.shape[-1])
    reliable_term = _cross_entropies(labeled_logits, labels).mean()
    return reliable_term + _cross_entropies(unlabeled_logits, consistency).mean()


def double_softmax_ratio(logits: Tensor, label: int) -> Tensor:
    """Ratio of the loss gradients with two softmaxes and with one, for each logit of one image: (K,) -> (K,).

    With p = softmax(a), p' = softmax(p), c the label: r_c = p_c (1 - p'_c + sum_{j != c} p_j p'_j / (1 - p_c)), and
    r_k = p'_k - sum_j p_j p'_j + p_c for k != c, which can be negative. The paper's closed forms (Appendix A) drop the
    one-hot term; its derivative, the sum over j, is right and is what this function computes.
    """
    if logits.ndim != 1 or len(logits) < 2 or not 0 <= label < len(logits):
        raise ValueError(f"logits must be (K,), K > 1, and the label in 0..K-1, got {tuple(logits.shape)} and {label}")
    first = logits.softmax(dim=0)
    second = first.softmax(dim=0)
    ratio = second - (first * second).sum() + first[label]
    others = logits.masked_fill(torch.arange(len(logits), device=logits.device) == label, -torch.inf)
    # p_j / (1 - p_c) as a softmax over the others: a quotient would be 0 / 0 for a confident prediction.
    ratio[label] = first[label] * (1 - second[label] + others.softmax(dim=0) @ second)
    return ratio


def _mean_probs(probs: Tensor, weight: Tensor | None) -> Tensor:
    """Weighted mean over the batch: (..., M, K) and (..., M) -> (..., K)."""
    check_probs(probs)
    if weight is None:
        return probs.mean(dim=-2)
    share = (weight / weight.sum(dim=-1, keepdim=True).clamp(min=1)).to(probs.dtype)  # (..., M)
    return (share.unsqueeze(dim=-2) @ probs).squeeze(dim=-2)


def _cross_entropies(logits: Tensor, labels: Tensor) -> Tensor:
    """Each image's cross-entropy, 0 where its label is IGNORE: (..., M, K) and (..., M) -> (..., M)."""
    check_integers("labels", labels, lowest=IGNORE, below=logits.shape[-1])
    # Clusters before images, the layout that `cluster_probs` explains.
    by_cluster = logits.reshape(-1, *logits.shape[-2:]).transpose(1, 2)  # (H, K, M)
    each = F.cross_entropy(
        by_cluster, labels.reshape(-1, labels.shape[-1]).long(), ignore_index=IGNORE, reduction="none"
    )
    return each.view(labels.shape)
