"""Diagnostics of the heads, computed without labels, and warnings about bad clusters.

Shapes: N images, K clusters, H heads, n images in the sample by which heads are compared.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.core.probs import cluster_probs
from spice.errors import SpiceWarning, warn_user
from spice.models.heads import Heads
from spice.settings import HeadSettings
from spice.stages.heads.losses import label_table
from spice.stages.heads.select import all_logits, distinct_share, sample_labels
from spice.stages.views import Views

SHARED = 0.5  # two clusters that share more than this fraction of their pseudo-labels have the same prototype
GIANT = 0.5  # share of all images
UNSTABLE = 0.3  # mean adjusted Rand index between heads


class SharedPrototypeWarning(SpiceWarning):
    """Two clusters of the selected head have the same prototype."""


class EmptyClusterWarning(SpiceWarning):
    """A cluster of the selected head has no image."""


class GiantClusterWarning(SpiceWarning):
    """One cluster has most of the images."""


class UnstableHeadsWarning(SpiceWarning):
    """The heads disagree about the clusters."""


class HeadDiagnostics(NamedTuple):
    """Diagnostics of the selected head."""

    distinct: float  # share of distinct images among the pseudo-labels
    shared: list[tuple[int, int]]  # pairs of clusters with the same prototype
    empty: list[int]  # clusters without an image
    largest: float  # share of all images in the largest cluster
    head_agreement: float  # mean adjusted Rand index between all heads after the last epoch


@torch.no_grad()
def diagnose(heads: Heads, selected: Heads, views: Views, settings: HeadSettings) -> HeadDiagnostics:
    """Diagnose the selected head (`Heads` with one head) and the agreement between all heads."""
    bank = views.take_bank(slice(None)).to(selected.hidden.device)
    probs = cluster_probs(all_logits(selected, views, settings.label_view))
    table = label_table(bank, probs, settings.model_copy(update={"overlap": True}))  # (1, N, K)
    sizes = all_logits(selected, views, "plain")[0].argmax(dim=1).bincount(minlength=settings.clusters)  # (K,)
    return HeadDiagnostics(
        distinct=float(distinct_share(table)),
        shared=_shared_prototypes(table[0]),
        empty=(sizes == 0).nonzero().flatten().tolist(),
        largest=float(sizes.max()) / len(views),
        head_agreement=head_agreement(sample_labels(heads, views, settings), settings.clusters),
    )


def warn_about(diagnostics: HeadDiagnostics, settings: HeadSettings) -> None:
    """Warn about bad clusters. The verdicts in the report say what to do about them."""
    if diagnostics.shared:
        pairs = ", ".join(f"{first} and {second}" for first, second in diagnostics.shared[:5])
        more = f" and {len(diagnostics.shared) - 5} more pairs" if len(diagnostics.shared) > 5 else ""
        message = f"groups {pairs}{more} share their typical images: each pair may be one group"
        warn_user(message, SharedPrototypeWarning)
    if diagnostics.empty:
        numbers = ", ".join(map(str, diagnostics.empty[:10])) + (", ..." if len(diagnostics.empty) > 10 else "")
        message = f"{len(diagnostics.empty)} of {settings.clusters} groups have no images ({numbers})"
        warn_user(message, EmptyClusterWarning)
    if diagnostics.largest > GIANT and settings.clusters > 2 and settings.shares is None:
        message = f"one group has {diagnostics.largest:.0%} of the images: the features may not separate them"
        warn_user(message, GiantClusterWarning)
    if diagnostics.head_agreement < UNSTABLE:
        warn_user(
            f"the heads disagree (mean adjusted Rand index {diagnostics.head_agreement:.2f}): "
            "another seed may give different groups",
            UnstableHeadsWarning,
        )


def head_agreement(labels: Tensor, clusters: int) -> float:
    """Mean adjusted Rand index over all pairs of heads with labels (H, n); NaN for a single head."""
    heads, images = labels.shape
    if heads < 2:
        return float("nan")
    members = F.one_hot(labels, clusters).float()  # (H, n, K)
    flat = members.permute(1, 0, 2).flatten(start_dim=1)  # (n, H * K)
    tables = (flat.T @ flat).double().view(heads, clusters, heads, clusters)  # a contingency table for each pair
    both = _pairs(tables).sum(dim=(1, 3))  # (H, H) pairs of images that both heads put together
    one = _pairs(members.sum(dim=1).double()).sum(dim=1)  # (H,) pairs of images that a head puts together
    expected = one[:, None] * one[None, :] / _pairs(torch.tensor(float(images), dtype=torch.float64))
    largest = (one[:, None] + one[None, :]) / 2
    index = torch.where(largest == expected, 1.0, (both - expected) / (largest - expected))
    above = torch.ones(heads, heads, dtype=torch.bool).triu(diagonal=1)
    return float(index.cpu()[above].mean())


def cluster_stability(labels: Tensor, others: Tensor, clusters: int) -> Tensor:
    """How well other heads (H, n) reproduce each cluster of `labels` (n,): (K,), 1 if every head has the same cluster.

    The mean over heads of the best Jaccard index (intersection over union) with any cluster of that head.
    """
    mine = F.one_hot(labels.long(), clusters).float()  # (n, K)
    best = []
    for head in others:
        theirs = F.one_hot(head.long(), clusters).float()
        intersection = mine.T @ theirs  # (K, K)
        union = mine.sum(dim=0)[:, None] + theirs.sum(dim=0)[None, :] - intersection
        best.append((intersection / union.clamp_min(1)).amax(dim=1))
    return torch.stack(best).mean(dim=0)


def _pairs(count: Tensor) -> Tensor:
    """The number of pairs among `count` images."""
    return count * (count - 1) / 2


def _shared_prototypes(table: Tensor) -> list[tuple[int, int]]:
    """Pairs of clusters where one labels mostly the same images as the other: (N, K) -> [(0, 3), ...]."""
    labeled = table.clamp(max=1)  # once or twice is the same
    sizes = labeled.sum(dim=0)  # (K,)
    overlap = (labeled.T @ labeled).triu(diagonal=1) / torch.minimum(sizes, sizes[:, None]).clamp(min=1)
    return [(first, second) for first, second in (overlap > SHARED).nonzero().tolist()]
