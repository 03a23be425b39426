"""NMF: k-means on the K weights by which nonnegative parts add up to an image (Cai et al., 2009, without its graph)."""

import warnings

import torch
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

from spice.benchmark.methods.codes import Labels, kmeans_labels
from spice.benchmark.rivals import Features


def fit(features: Features, clusters: int, *, seed: int) -> Labels:
    """Labels (N,) of nonnegative rows (N, D), such as pixels."""
    model = NMF(clusters, init="nndsvda", random_state=seed, max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        weights = model.fit_transform(features)  # (N, K)
    return kmeans_labels(torch.from_numpy(weights), clusters, seed=seed)
