"""How well clusters agree with true classes: ACC, NMI and ARI as in the paper's tables, and the confusion matrix.

Shapes: N images, K clusters, C classes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

Labels = NDArray[np.int64]
UNMATCHED = -1


class Scores(NamedTuple):
    """Agreement of a clustering with the true classes; 1 is perfect, whatever the clusters are called."""

    acc: float  # share of images whose cluster is matched to their class, one to one (Hungarian method)
    balanced_acc: float  # the same share within each class, averaged over classes: small classes count as much
    nmi: float  # mutual information over the geometric mean of the two entropies, as in the authors' code
    ari: float  # Rand index, adjusted for chance


class Confusion(NamedTuple):
    """How many images of each true class are in each cluster."""

    counts: NDArray[np.int64]  # (C, K) classes by clusters; matched clusters come first, in the order of classes
    classes: Labels  # (C,) the true label of each row
    clusters: Labels  # (K,) the cluster of each column


def score(clusters: ArrayLike, truth: ArrayLike) -> Scores:
    """ACC, NMI and ARI of cluster numbers (N,) against true labels (N,); both are any integers."""
    predicted, true = _labels(clusters, truth)
    right, count = _right_per_class(predicted, true)
    return Scores(
        acc=float(right.sum() / len(predicted)),
        balanced_acc=float((right / count).mean()),
        nmi=float(normalized_mutual_info_score(true, predicted, average_method="geometric")),
        ari=float(adjusted_rand_score(true, predicted)),
    )


def accuracy(clusters: ArrayLike, truth: ArrayLike) -> float:
    """ACC alone: the share of images that are right under the best one-to-one matching of clusters to classes."""
    predicted, true = _labels(clusters, truth)
    return float(_right_per_class(predicted, true)[0].sum() / len(predicted))


def confusion(clusters: ArrayLike, truth: ArrayLike) -> Confusion:
    """Count the images of each class in each cluster; if K = C, the diagonal holds the images that ACC counts."""
    predicted, true = _labels(clusters, truth)
    counts = contingency_matrix(predicted, true)  # (K, C)
    matched = match(counts)
    # Unmatched clusters go last.
    order = np.argsort(np.where(matched == UNMATCHED, counts.shape[1], matched), kind="stable")
    return Confusion(counts[order].T, np.unique(true), np.unique(predicted)[order])


def matched_labels(clusters: ArrayLike, truth: ArrayLike) -> Labels:
    """The true label that each image's cluster is matched to, (N,); UNMATCHED if it is matched to none."""
    predicted, true = _labels(clusters, truth)
    classes = np.append(np.unique(true), UNMATCHED)
    names: Labels = classes[match(contingency_matrix(predicted, true))]  # (K,); -1 takes the last entry
    return names[np.unique(predicted, return_inverse=True)[1]]


def match(counts: NDArray[np.int64]) -> Labels:
    """The class of each cluster, by the one-to-one matching with the most images right: (K, C) -> (K,).

    With more clusters than classes, the remaining clusters are UNMATCHED.
    """
    clusters, classes = linear_sum_assignment(counts, maximize=True)
    matched = np.full(counts.shape[0], UNMATCHED, dtype=np.int64)
    matched[clusters] = classes
    return matched


def _right_per_class(predicted: Labels, true: Labels) -> tuple[Labels, Labels]:
    """How many images of each class are in the cluster matched to it, and how many it has, (C,) each."""
    counts = contingency_matrix(predicted, true)  # (K, C)
    matched = match(counts)
    kept = matched != UNMATCHED
    right = np.zeros(counts.shape[1], dtype=np.int64)
    right[matched[kept]] = counts[kept, matched[kept]]
    return right, counts.sum(axis=0)


def _labels(clusters: ArrayLike, truth: ArrayLike) -> tuple[Labels, Labels]:
    predicted, true = np.asarray(clusters), np.asarray(truth)
    for labels, name in ((predicted, "clusters"), (true, "true labels")):
        if labels.ndim != 1:
            raise ValueError(f"{name} must be one number for each image, found shape {labels.shape}")
        if labels.size and labels.dtype.kind not in "iu":
            raise ValueError(f"{name} must be whole numbers, found {labels.dtype}")
    if len(predicted) != len(true):
        raise ValueError(f"{len(predicted):,} predicted labels cannot be compared with {len(true):,} true labels")
    if len(predicted) == 0:
        raise ValueError("there is nothing to score: no labels were given")
    return predicted.astype(np.int64), true.astype(np.int64)
