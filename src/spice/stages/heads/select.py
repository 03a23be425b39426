"""Score all heads and select the best, by loss over all images (paper III-B) or by compactness. No labels are used.

Shapes: N images, D feature width, K clusters, H heads, n images in the sample by which heads are compared.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from spice.core.probs import cluster_probs, one_hot_argmax, one_hot_labels
from spice.models.heads import Heads
from spice.settings import HeadSettings
from spice.stages.heads.losses import head_losses, label_table
from spice.stages.view_files import Kind
from spice.stages.views import Views

# Heads are scored a few (h) at a time, so that tensors (h, N, K) have at most about this many elements.
MAX_NUMBERS = 20_000_000
CHUNK = 8_192

# With select_by "compactness", the loss only breaks ties: if groups are clear, most heads are equally compact.
COMPACTNESS_WEIGHT = 100.0

SAMPLE_SIZE = 10_000  # at most this many images, whose labels are kept to compare heads
MAX_KEPT_LABELS = 20_000_000  # over all heads and snapshots


class HeadSnapshot(NamedTuple):
    """The scores of all heads after an epoch."""

    epoch: int
    loss: Tensor  # (H,) over all images, M = N
    compactness: Tensor  # (H,) share of the variance of the features that lies between clusters
    distinct: Tensor  # (H,) share of distinct images among the pseudo-labels, 1 / K less for each shared prototype
    labels: Tensor  # (H, n) predicted clusters of the sample's plain images, uint8 if that is wide enough

    def score(self, settings: HeadSettings) -> Tensor:
        """What the best head minimizes: (H,)."""
        return self.loss if settings.select_by == "loss" else self.loss - COMPACTNESS_WEIGHT * self.compactness


class BestHead(NamedTuple):
    """The head with the lowest score of all heads in all snapshots."""

    epoch: int
    number: int
    loss: float  # over all images
    score: float  # as in `HeadSnapshot.score`
    parameters: dict[str, Tensor]  # of `Heads` with one head


@torch.no_grad()
def take_snapshot(heads: Heads, views: Views, settings: HeadSettings, *, epoch: int) -> HeadSnapshot:
    """Score every head with all images as one batch (M = N): E-step and loss, without an update."""
    device = heads.hidden.device
    bank = views.take_bank(slice(None)).to(device)
    at_once = max(1, MAX_NUMBERS // (len(views) * settings.clusters))
    dtype = torch.uint8 if settings.clusters <= 256 else torch.int32
    losses, compact, distinct, labels = [], [], [], []
    for first in range(0, len(heads), at_once):
        few = heads.part(slice(first, first + at_once))
        probs = cluster_probs(all_logits(few, views, settings.label_view))  # (h, N, K)
        table = label_table(bank, probs, settings)  # (h, N, K)
        losses.append(head_losses(all_logits(few, views, settings.train_view), table, settings))
        compact.append(compactness(bank, one_hot_argmax(probs.mT)))
        distinct.append(distinct_share(table))
        labels.append(sample_labels(few, views, settings).to(dtype))
    return HeadSnapshot(epoch, *(torch.cat(parts).cpu() for parts in (losses, compact, distinct, labels)))


def better_head(best: BestHead | None, heads: Heads, snapshot: HeadSnapshot, settings: HeadSettings) -> BestHead:
    """The better one of the best head so far and the best head of this snapshot."""
    scores = snapshot.score(settings)
    number = int(scores.argmin())
    score, loss = float(scores[number]), float(snapshot.loss[number])
    if best is None or score < best.score:
        return BestHead(snapshot.epoch, number, loss, score, dict(heads.part(slice(number, number + 1)).state_dict()))
    return best


def good_heads(snapshot: HeadSnapshot, settings: HeadSettings, *, excluding: int) -> list[int]:
    """The better half of the heads by score, without the selected head."""
    order = snapshot.score(settings).argsort(stable=True).tolist()
    return [number for number in order if number != excluding][: max(1, len(order) // 2)]


def sample_for_comparison(images: int, settings: HeadSettings) -> slice:
    """Evenly spaced images, few enough to keep their labels from all heads in all snapshots.

    Images are ordered by a hash of their content, so this is a random sample.
    """
    snapshots = -(-settings.epochs // settings.select_every)
    most = min(SAMPLE_SIZE, max(1, MAX_KEPT_LABELS // (snapshots * settings.heads)))
    return slice(0, images, -(-images // most))


def sample_labels(heads: Heads, views: Views, settings: HeadSettings) -> Tensor:
    """The clusters that heads predict for the sample's plain images: (H, n)."""
    features = views.take("plain", 0, sample_for_comparison(len(views), settings)).to(heads.hidden.device)
    parts: tuple[Tensor, ...] = features.split(CHUNK)  # type: ignore[no-untyped-call]
    return torch.cat([one_hot_labels(one_hot_argmax(heads(part).mT)) for part in parts], dim=1)


def all_logits(heads: Heads, views: Views, kind: Kind) -> Tensor:
    """Logits (H, N, K) of the first view of every image."""
    chunks = (views.take(kind, 0, slice(start, start + CHUNK)) for start in range(0, len(views), CHUNK))
    return torch.cat([heads(chunk.to(heads.hidden.device)) for chunk in chunks], dim=1)


def compactness(bank: Tensor, members: Tensor) -> Tensor:
    """The share of the variance of features (N, D) that lies between the clusters (H, K, N) of each head: (H,).

    k-means maximizes this share. The loss only measures how confident a head is of its own labels, and a head that has
    lost a cluster is more confident than others. Compactness exposes such a head, and also a head that splits a large
    group and joins two small ones.
    """
    centered = bank - bank.mean(dim=0)
    sums = (members.flatten(end_dim=1) @ centered).view(*members.shape[:2], -1)  # (H, K, D)
    between = (sums.square().sum(dim=2) / members.sum(dim=2).clamp(min=1)).sum(dim=1)  # (H,)
    return between / centered.square().sum().clamp(min=torch.finfo(bank.dtype).tiny)


def distinct_share(table: Tensor) -> Tensor:
    """Images with a label, divided by the number of labels: (H, N, K) -> (H,)."""
    labels = table.sum(dim=2)  # (H, N)
    return (labels > 0).sum(dim=1) / labels.sum(dim=1)
