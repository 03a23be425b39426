"""Which images of each cluster are shown: nearest to the center, typical, borderline, doubtful.

Shapes: N images, K clusters.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spice.runs import Labels

# Pictures on all cards together, so that the report stays small with many clusters.
CARD_PICTURES = 1200
MOST_PER_KIND = 8
ATTENTION_PICTURES = 120
MOST_ATTENTION = 3

# Typical images lie between these shares of a cluster, from its center outward.
_TYPICAL_FROM, _TYPICAL_TO = 0.2, 0.8


class CardImages(NamedTuple):
    """Rows of the label table for one cluster; no image is shown twice."""

    prototypes: NDArray[np.int64]  # nearest to the cluster's center
    typical: NDArray[np.int64]  # evenly spaced through the middle of the cluster, nearest to the center first
    borderline: NDArray[np.int64]  # smallest margin over the next cluster
    doubtful: NDArray[np.int64]  # fewest neighbors in the same cluster


def choose_images(labels: Labels, clusters: int) -> list[CardImages]:
    """The images to show of every cluster; with very many clusters, only the one nearest to the center."""
    per_kind = min(MOST_PER_KIND, CARD_PICTURES // (4 * clusters))
    chosen = [_choose(labels, number, max(1, per_kind)) for number in range(clusters)]
    nothing = np.empty(0, dtype=np.int64)
    return chosen if per_kind else [CardImages(rows.prototypes, nothing, nothing, nothing) for rows in chosen]


def with_attention(chosen: list[CardImages]) -> list[NDArray[np.int64]]:
    """The prototypes that get an attention overlay, per cluster; none if there are very many clusters."""
    per_cluster = min(MOST_ATTENTION, ATTENTION_PICTURES // max(1, len(chosen)))
    return [rows.prototypes[:per_cluster] for rows in chosen]


def _choose(labels: Labels, cluster: int, per_kind: int) -> CardImages:
    members = np.flatnonzero(labels.cluster == cluster)
    near_first = members[np.argsort(labels.prototype_rank[members], kind="stable")]
    prototypes, rest = near_first[:per_kind], near_first[per_kind:]
    # An image that is both doubtful and borderline counts as doubtful, which matters more.
    unreliable = rest[~labels.reliable[rest]]
    doubtful = unreliable[np.argsort(labels.reliability[unreliable], kind="stable")][:per_kind]
    rest = rest[~np.isin(rest, doubtful)]
    borderline = rest[np.argsort(labels.margin[rest], kind="stable")][: min(per_kind, len(rest) // 2)]
    rest = rest[~np.isin(rest, borderline)]
    middle = rest[int(len(rest) * _TYPICAL_FROM) : int(np.ceil(len(rest) * _TYPICAL_TO))]
    spread = np.unique(np.linspace(0, len(middle) - 1, min(per_kind, len(middle))).round().astype(np.int64))
    return CardImages(prototypes, middle[spread], borderline, doubtful)
