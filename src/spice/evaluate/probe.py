"""How much of the true classes features hold: accuracy of a linear probe and of a vote among nearest neighbors.

Shapes: N images, D feature width, C classes, S neighbors that vote.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from spice.neighbors import nearest

Features = NDArray[np.floating]
Labels = NDArray[np.int64]


class Labeled(NamedTuple):
    """Features with their true labels."""

    features: Features  # (N, D)
    labels: Labels  # (N,) 0 .. C - 1


def linear_accuracy(known: Labeled, asked: Labeled | None = None, *, seed: int = 0, folds: int = 5) -> float:
    """Accuracy on `asked` of a logistic regression that saw `known`; without `asked`, cross-validated on `known`.

    Features are standardized by what the regression saw; its l2 penalty is scikit-learn's default, tuned on nothing.
    """
    known = _checked(known)
    if asked is not None:
        return float(_linear_right(known, _checked(asked)).mean())
    rarest = np.bincount(known.labels)[np.unique(known.labels)].min()
    if rarest < folds:
        raise ValueError(f"a class has only {rarest} images, too few for {folds} folds: give a test set")
    right = np.zeros(len(known.labels), dtype=bool)
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=seed).split(known.features, known.labels):
        right[test] = _linear_right(_take(known, train), _take(known, test))
    return float(right.mean())


def neighbors_accuracy(known: Labeled, asked: Labeled | None = None, *, neighbors: int = 5) -> float:
    """Share of `asked` whose `neighbors` nearest in `known`, by cosine, vote for their class.

    Without `asked`, each image of `known` is asked of all the others. A tie goes to the class of the nearest.
    """
    known = _checked(known)
    asked = None if asked is None else _checked(asked)
    queries = None if asked is None else torch.as_tensor(asked.features)
    index = nearest(torch.as_tensor(known.features), neighbors, queries=queries).index  # (N, S)
    ballots = torch.as_tensor(known.labels)[index]  # (N, S)
    # A little more for the nearer ones: together less than one vote, so that only ties are decided by it.
    weights = 1 + 0.5 ** torch.arange(1, neighbors + 1, dtype=torch.float64)  # (S,)
    votes = torch.zeros(len(index), int(known.labels.max()) + 1, dtype=torch.float64)  # (N, C)
    votes.scatter_add_(1, ballots, weights.expand_as(ballots))
    truth = (asked or known).labels
    return float((votes.argmax(dim=1).numpy() == truth).mean())


def _linear_right(known: Labeled, asked: Labeled) -> NDArray[np.bool_]:
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    model.fit(known.features, known.labels)
    right: NDArray[np.bool_] = model.predict(asked.features) == asked.labels
    return right


def _take(labeled: Labeled, positions: NDArray[np.int64]) -> Labeled:
    return Labeled(labeled.features[positions], labeled.labels[positions])


def _checked(labeled: Labeled) -> Labeled:
    features, labels = np.asarray(labeled.features), np.asarray(labeled.labels)
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise ValueError(f"features {features.shape} and labels {labels.shape} do not belong together")
    if labels.dtype.kind not in "iu" or (labels.size and labels.min() < 0):
        raise ValueError(f"labels must be whole numbers from 0, found {labels.dtype}")
    if not np.isfinite(features).all():
        raise ValueError("features hold a NaN or infinite value")
    return Labeled(features, labels.astype(np.int64))
