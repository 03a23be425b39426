"""k-means on unit vectors, the rival that stands beside every result: scikit-learn, the best of ten starts."""

import numpy as np
from sklearn.cluster import KMeans

from spice.benchmark.rivals.rival import Features, Labels, unit


def fit(features: Features, clusters: int, *, seed: int) -> Labels:
    """The start with the least squared distance to the centers."""
    model = KMeans(clusters, n_init=10, random_state=seed)
    labels: Labels = model.fit_predict(unit(features)).astype(np.int64)
    return labels
