"""Quality of features: the accuracy of a linear probe (Table VI).

Shapes: N images, D feature width, C classes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

Features = NDArray[np.floating]
Labels = NDArray[np.int64]
FOLDS = 5


class LabeledFeatures(NamedTuple):
    """Features with their true labels."""

    features: Features  # (N, D)
    labels: Labels  # (N,) 0 .. C - 1


def linear_accuracy(known: LabeledFeatures, test: LabeledFeatures | None = None, *, seed: int = 0) -> float:
    """Accuracy on `test` of a logistic regression fitted to `known`; without `test`, cross-validated on `known`.

    Features are standardized by those that the regression is fitted to; its l2 penalty is scikit-learn's default.
    """
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    if test is not None:
        return float(model.fit(*known).score(*test))
    split = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    return float((cross_val_predict(model, *known, cv=split) == known.labels).mean())
