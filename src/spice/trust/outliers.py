"""Outliers: images unlike all others, from the similarities to their nearest images.

Shapes: N images, S neighbors.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NEAREST = 5  # more than one, so that a copy does not hide an outlier
FENCE = 1.5  # Tukey's rule: interquartile ranges above the upper quartile


class Outliers(NamedTuple):
    """The distance of every image to its nearest images, and the distance above which it is an outlier."""

    distance: NDArray[np.float64]  # (N,) one minus the mean similarity to the nearest images
    fence: float

    @property
    def outlier(self) -> NDArray[np.bool_]:
        """Whether each image is above the fence: (N,)."""
        return self.distance > self.fence

    def farthest(self) -> NDArray[np.int64]:
        """The rows of the outliers, farthest first."""
        rows = np.flatnonzero(self.outlier)
        return rows[np.argsort(-self.distance[rows], kind="stable")]


def find_outliers(similarities: NDArray[np.float32]) -> Outliers:
    """Outliers by Tukey's rule, which adapts to the collection, from similarities (N, S), nearest first."""
    distance = 1 - similarities[:, :NEAREST].mean(axis=1, dtype=np.float64)
    low, high = np.quantile(distance, [0.25, 0.75])
    return Outliers(distance, float(high + FENCE * (high - low)))
