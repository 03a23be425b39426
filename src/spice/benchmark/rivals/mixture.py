"""A mixture of Gaussians with full covariances, which need few dimensions: principal components come first."""

import numpy as np
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture

from spice.benchmark.rivals.rival import Features, Labels, unit

COMPONENTS = 64


def fit(features: Features, clusters: int, *, seed: int) -> Labels:
    """The likeliest of three starts from k-means; at least four images for every dimension of a covariance."""
    points = unit(features)
    width = max(1, min(COMPONENTS, points.shape[1], len(points) // (4 * clusters)))
    reduced = PCA(width, random_state=seed).fit_transform(points).astype(np.float64)
    # In units of the data: a fixed floor would swallow the small variances of unit vectors.
    floor = 1e-3 * float(reduced.var(axis=0).mean()) + 1e-12
    model = GaussianMixture(clusters, n_init=3, reg_covar=floor, random_state=seed)
    labels: Labels = model.fit_predict(reduced).astype(np.int64)
    return labels
