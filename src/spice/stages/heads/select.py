"""Which head is best, by its own loss over all images, and what can be said of it without labels (paper III-B).

Shapes: N images, K clusters, H heads, T = N // K images labeled per cluster.
"""

import warnings
from typing import NamedTuple, TypedDict

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.core import (
    cross_entropy,
    double_softmax_cross_entropy,
    negative_entropy,
    prototype_table,
    temperature_cross_entropy,
)
from spice.core.probs import cluster_probs, likeliest, marked
from spice.core.prototypes import Sizes
from spice.errors import SpiceWarning
from spice.models.heads import Heads
from spice.settings import HeadSettings
from spice.stages.views import Kind, Views

# Heads are looked at a few at a time, so that no more than about this many numbers (h, N, K) are held of anything.
NUMBERS = 20_000_000
CHUNK = 8_192

SHARED = 0.5  # two clusters that share so much of their pseudo-labels have one prototype
GIANT = 0.5  # share of all images
UNSTABLE = 0.3  # mean adjusted Rand index between heads
COMPARED = 10_000  # images by which heads are compared, at most
KEPT = 20_000_000  # clusters that are kept of all looks at all heads, at most


class SharedPrototypeWarning(SpiceWarning):
    """Two clusters of the selected head have the same prototype."""


class EmptyClusterWarning(SpiceWarning):
    """A cluster of the selected head has no image."""


class GiantClusterWarning(SpiceWarning):
    """One cluster holds most of the images."""


class UnstableHeadsWarning(SpiceWarning):
    """The heads hardly agree with one another."""


class Look(NamedTuple):
    """The heads after an epoch."""

    epoch: int
    loss: Tensor  # (H,) over all images, M = N
    compactness: Tensor  # (H,) share of the features' variance that lies between clusters
    distinct: Tensor  # (H,) share of distinct images among the pseudo-labels; each shared prototype takes away 1 / K
    labels: Tensor  # (H, n) clusters of the plain images of `compared`, uint8 where that is wide enough

    def score(self, settings: HeadSettings) -> Tensor:
        """What the best head has least of: the loss (the paper), less a share of the compactness if one is set."""
        return self.loss - settings.compactness * self.compactness  # (H,)


class Signs(NamedTuple):
    """What can be seen of the selected head without labels."""

    distinct: float  # as in Look
    shared: list[tuple[int, int]]  # pairs of clusters with one prototype
    empty: list[int]  # clusters without an image
    largest: float  # share of all images in the largest cluster
    agreement: float  # mean adjusted Rand index between the heads after the last epoch; nan for one head


class EStep(TypedDict):
    """What `prototype_labels` and `prototype_table` are told."""

    center_ratio: float
    overlap: bool
    sizes: Sizes


def e_step(settings: HeadSettings) -> EStep:
    """The E-step as the settings have it."""
    sizes: Sizes = "nearest" if settings.sizes == "nearest" else "even"
    return EStep(center_ratio=settings.center_ratio, overlap=settings.overlap, sizes=sizes)


def head_losses(logits: Tensor, labels: Tensor, settings: HeadSettings) -> Tensor:
    """The loss of every head: logits (H, n, K) of strong views against pseudo-labels (H, n) or (H, n, K) -> (H,)."""
    if settings.loss == "double_softmax":
        losses = double_softmax_cross_entropy(logits, labels)
    elif settings.loss == "temperature":
        losses = temperature_cross_entropy(logits, labels, temperature=settings.temperature)
    else:
        losses = cross_entropy(logits, labels)
    if settings.entropy:
        often = labels.sum(dim=-1) if labels.ndim == logits.ndim else None  # an image counts for every label it has
        losses = losses + settings.entropy * negative_entropy(cluster_probs(logits), often)
    return losses


@torch.no_grad()
def look(heads: Heads, views: Views, settings: HeadSettings, *, epoch: int) -> Look:
    """Every head's loss with the whole set as one batch: E-step and M-step's loss, nothing learned."""
    device = heads.hidden.device
    bank = views.compared(slice(None)).to(device)
    at_once = max(1, NUMBERS // (len(views) * settings.clusters))
    losses, compact, distinct, labels = [], [], [], []
    for first in range(0, len(heads), at_once):
        few = heads.part(slice(first, first + at_once))
        probs = cluster_probs(all_logits(few, views, settings.label_view))  # (h, N, K)
        chosen = prototype_table(bank, probs, **e_step(settings))  # (h, N, K)
        losses.append(head_losses(all_logits(few, views, settings.train_view), chosen, settings))
        compact.append(compactness(bank, likeliest(probs.mT)))
        distinct.append(_distinct(chosen, settings))
        labels.append(_some_labels(few, views, settings).to(_dtype(settings.clusters)))
    return Look(epoch, *(torch.cat(parts).cpu() for parts in (losses, compact, distinct, labels)))


def compared(images: int, settings: HeadSettings) -> slice:
    """An even share of the images, by which heads are compared: few enough to keep what all heads say of them.

    Images lie in the order of their content, so every so-many-th one is a fair draw.
    """
    looks = -(-settings.epochs // settings.select_every)
    most = min(COMPARED, max(1, KEPT // (looks * settings.heads)))
    return slice(0, images, -(-images // most))


def good_heads(seen: Look, settings: HeadSettings, *, apart_from: int) -> list[int]:
    """The better half of the heads by what they are selected by, without the selected one."""
    order = seen.score(settings).argsort(stable=True).tolist()
    return [number for number in order if number != apart_from][: max(1, len(order) // 2)]


def compactness(bank: Tensor, members: Tensor) -> Tensor:
    """The share of the features' (N, D) variance that lies between the clusters (H, K, N) of every head: (H,).

    What k-means makes as large as it can. The loss asks how sure a head is of its own labels, and a head that has given
    up a cluster is surer than others; this tells it, and one that splits a large group and joins two small ones.
    """
    centered = bank - bank.mean(dim=0)
    sums = (members.flatten(end_dim=1) @ centered).view(*members.shape[:2], -1)  # (H, K, D)
    between = (sums.square().sum(dim=2) / members.sum(dim=2).clamp(min=1)).sum(dim=1)  # (H,)
    return between / centered.square().sum().clamp(min=torch.finfo(bank.dtype).tiny)


def all_logits(heads: Heads, views: Views, kind: Kind) -> Tensor:
    """Logits (H, N, K) of the first view of every image."""
    device = heads.hidden.device
    parts = [
        heads(views.take(kind, 0, slice(start, start + CHUNK)).to(device)) for start in range(0, len(views), CHUNK)
    ]
    return torch.cat(parts, dim=1)


@torch.no_grad()
def signs(heads: Heads, selected: Heads, views: Views, settings: HeadSettings) -> Signs:
    """Look at the selected head (a `Heads` of one) among all the others."""
    device = selected.hidden.device
    probs = cluster_probs(all_logits(selected, views, settings.label_view))
    claimed = e_step(settings.model_copy(update={"overlap": True}))
    chosen = prototype_table(views.compared(slice(None)).to(device), probs, **claimed)
    sizes = all_logits(selected, views, "plain")[0].argmax(dim=1).bincount(minlength=settings.clusters)  # (K,)
    return Signs(
        distinct=float(_distinct(chosen, settings)),
        shared=_shared(chosen[0]),
        empty=(sizes == 0).nonzero().flatten().tolist(),
        largest=float(sizes.max()) / len(views),
        agreement=agreement(_some_labels(heads, views, settings), settings.clusters),
    )


def warn_of(found: Signs, settings: HeadSettings) -> None:
    """Warn of what looks bad, with what to try."""
    if found.shared:
        pairs = ", ".join(f"{first} and {second}" for first, second in found.shared[:5])
        more = f" and {len(found.shared) - 5} more pairs" if len(found.shared) > 5 else ""
        _say(
            SharedPrototypeWarning,
            f"clusters {pairs}{more} rest on the same images: there may be fewer than {settings.clusters} groups; "
            "try fewer clusters, another seed, or another encoder",
        )
    if found.empty:
        _say(
            EmptyClusterWarning,
            f"{len(found.empty)} of {settings.clusters} clusters have no image ({_few(found.empty)}): "
            "try fewer clusters, or another seed",
        )
    if found.largest > GIANT and settings.clusters > 2:
        _say(
            GiantClusterWarning,
            f"one cluster holds {found.largest:.0%} of the images: the features may not tell them apart; "
            "try another encoder, or more clusters",
        )
    if found.agreement < UNSTABLE:
        _say(
            UnstableHeadsWarning,
            f"heads agree little with one another (adjusted Rand index {found.agreement:.2f} on average): "
            "another seed may give other groups; try another number of clusters, or another encoder",
        )


def agreement(labels: Tensor, clusters: int) -> float:
    """Mean adjusted Rand index over all pairs of heads, labels (H, n)."""
    heads, images = labels.shape
    if heads < 2:
        return float("nan")
    members = F.one_hot(labels, clusters).float()  # (H, n, K)
    flat = members.permute(1, 0, 2).flatten(start_dim=1)  # (n, H * K)
    tables = (flat.T @ flat).double().view(heads, clusters, heads, clusters)  # every pair's contingency table
    together = _pairs(tables).sum(dim=(1, 3))  # (H, H) pairs of images together in both
    alone = _pairs(members.sum(dim=1).double()).sum(dim=1)  # (H,) pairs together in one
    expected = alone[:, None] * alone[None, :] / _pairs(torch.tensor(float(images), dtype=torch.float64))
    most = (alone[:, None] + alone[None, :]) / 2
    index = torch.where(most == expected, 1.0, (together - expected) / (most - expected))
    above = torch.ones(heads, heads, dtype=torch.bool).triu(diagonal=1)
    return float(index.cpu()[above].mean())


def cluster_agreement(labels: Tensor, others: Tensor, clusters: int) -> Tensor:
    """How far other heads (H, n) find each cluster of `labels` (n,) too: (K,), 1 where all have the very same.

    For each head the best Jaccard index (images in both over images in either) of any of its clusters; their mean.
    """
    mine = F.one_hot(labels.long(), clusters).float()  # (n, K)
    best = []
    for head in others:
        theirs = F.one_hot(head.long(), clusters).float()
        both = mine.T @ theirs  # (K, K)
        either = mine.sum(dim=0)[:, None] + theirs.sum(dim=0)[None, :] - both
        best.append((both / either.clamp_min(1)).amax(dim=1))
    return torch.stack(best).mean(dim=0)


def _pairs(count: Tensor) -> Tensor:
    return count * (count - 1) / 2


def _some_labels(heads: Heads, views: Views, settings: HeadSettings) -> Tensor:
    features = views.take("plain", 0, compared(len(views), settings)).to(heads.hidden.device)
    parts: tuple[Tensor, ...] = features.split(CHUNK)  # type: ignore[no-untyped-call]
    return torch.cat([marked(likeliest(heads(part).mT)) for part in parts], dim=1)  # (H, n)


def _dtype(clusters: int) -> torch.dtype:
    return torch.uint8 if clusters <= 256 else torch.int32


def _distinct(labels: Tensor, settings: HeadSettings) -> Tensor:
    """The share of distinct images among the places that there are for labels: (H, N, K) -> (H,)."""
    often = labels.sum(dim=2)  # (H, N)
    places = often.sum(dim=1)
    if e_step(settings)["sizes"] == "even":  # without overlap some of them stay empty
        places = places.new_full((), labels.shape[1] // settings.clusters * settings.clusters)
    return (often > 0).sum(dim=1) / places


def _shared(labels: Tensor) -> list[tuple[int, int]]:
    """Pairs of clusters of which one labels little that the other does not: (N, K) -> [(0, 3), ...]."""
    claimed = labels.clamp(max=1)  # once or twice is the same
    sizes = claimed.sum(dim=0)  # (K,)
    overlap = (claimed.T @ claimed).triu(diagonal=1) / torch.minimum(sizes, sizes[:, None]).clamp(min=1)
    return [(first, second) for first, second in (overlap > SHARED).nonzero().tolist()]


def _few(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:10])) + (", ..." if len(numbers) > 10 else "")


def _say(category: type[SpiceWarning], words: str) -> None:
    warnings.warn(words, category, stacklevel=4)
