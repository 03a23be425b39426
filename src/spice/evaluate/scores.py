"""How well clusters agree with true classes: ACC, NMI and ARI as in the paper's tables, and the confusion behind them.

Shapes: N images, K clusters, C classes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from spice.evaluate.matching import UNMATCHED, match

Labels = NDArray[np.int64]


class Scores(NamedTuple):
    """Agreement of a clustering with the true classes; 1 is perfect, whatever the clusters are called."""

    acc: float  # share of images whose cluster is matched to their class, one to one (Hungarian method)
    nmi: float  # mutual information over the arithmetic mean of the two entropies (scikit-learn's default)
    nmi_geometric: float  # over their geometric mean, as the authors' code computes it
    ari: float  # Rand index, adjusted for chance


class Confusion(NamedTuple):
    """Images of each true class by the class that their cluster is matched to."""

    counts: NDArray[
        np.int64
    ]  # (C, K): row, a true class; column, a cluster, matched ones first, in the order of classes
    classes: Labels  # (C,) the true label of each row
    clusters: Labels  # (K,) the cluster of each column


def score(clusters: ArrayLike, truth: ArrayLike) -> Scores:
    """ACC, NMI and ARI of cluster numbers (N,) against true labels (N,); both are any integers."""
    found, true = _labels(clusters, truth)
    return Scores(
        acc=_accuracy(found, true),
        nmi=float(normalized_mutual_info_score(true, found, average_method="arithmetic")),
        nmi_geometric=float(normalized_mutual_info_score(true, found, average_method="geometric")),
        ari=float(adjusted_rand_score(true, found)),
    )


def accuracy(clusters: ArrayLike, truth: ArrayLike) -> float:
    """ACC alone: the share of images that the best one-to-one matching of clusters to classes makes right."""
    return _accuracy(*_labels(clusters, truth))


def confusion(clusters: ArrayLike, truth: ArrayLike) -> Confusion:
    """How the images of each class spread over clusters; where K = C, the diagonal holds what ACC counts as right."""
    counts, cluster_names, class_names = _contingency(*_labels(clusters, truth))
    matched = match(counts)
    # Unmatched clusters go last: they have no class to stand in for.
    order = np.argsort(np.where(matched == UNMATCHED, len(class_names), matched), kind="stable")
    return Confusion(counts[order].T, class_names, cluster_names[order])


def matched_labels(clusters: ArrayLike, truth: ArrayLike) -> Labels:
    """The true label that each image's cluster is matched to, (N,); UNMATCHED where it is matched to none."""
    found, true = _labels(clusters, truth)
    counts, cluster_names, class_names = _contingency(found, true)
    names = np.append(class_names, UNMATCHED)[match(counts)]  # (K,); -1 takes the last entry
    return names[np.searchsorted(cluster_names, found)]


def _accuracy(found: Labels, true: Labels) -> float:
    counts = _contingency(found, true)[0]
    matched = match(counts)
    kept = matched != UNMATCHED
    return float(counts[kept, matched[kept]].sum() / len(found))


def _contingency(found: Labels, true: Labels) -> tuple[NDArray[np.int64], Labels, Labels]:
    """Images in common of every cluster and class, (K, C), and the names of both; an empty cluster has no row."""
    cluster_names, row = np.unique(found, return_inverse=True)
    class_names, column = np.unique(true, return_inverse=True)
    shape = (len(cluster_names), len(class_names))
    counts = np.bincount(row * shape[1] + column, minlength=shape[0] * shape[1]).reshape(shape)
    return counts, cluster_names, class_names


def _labels(clusters: ArrayLike, truth: ArrayLike) -> tuple[Labels, Labels]:
    found, true = _whole_numbers(clusters, "clusters"), _whole_numbers(truth, "true labels")
    if len(found) != len(true):
        raise ValueError(f"{len(found):,} clusters cannot be compared with {len(true):,} true labels")
    if len(found) == 0:
        raise ValueError("there is nothing to score: no labels were given")
    return found, true


def _whole_numbers(labels: ArrayLike, name: str) -> Labels:
    array = np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one number for each image, found shape {array.shape}")
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be whole numbers, found {array.dtype}")
    return array.astype(np.int64)
