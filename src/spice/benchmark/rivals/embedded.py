"""Common practice: UMAP followed by a classic method, and Leiden on the neighbor graph. Needs the extra `bench`.

UMAP has 10 dimensions, 15 neighbors, a minimum distance of 0 and cosine distance, as its documentation advises for
clustering. HDBSCAN and Leiden do not take a number of clusters, so their other parameters are set by it.

Shapes: N images, D feature width, K clusters.
"""

import importlib.util
import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import HDBSCAN

from spice.benchmark.rivals.classic import Features, Labels, kmeans_labels, mixture_labels, unit
from spice.errors import UserError
from spice.neighbors import nearest

DIMENSIONS, NEIGHBORS = 10, 15
# HDBSCAN's smallest cluster, as a share of the mean size N / K.
SMALLEST = 0.25
# Leiden's resolution is found by bisection in this range.
LOWEST, HIGHEST, TRIES = 1e-3, 1e3, 20


def umap_kmeans(features: Features, clusters: int, *, seed: int) -> Labels:
    """k-means on the UMAP embedding."""
    return kmeans_labels(_embedding(features, seed), clusters, seed=seed)


def umap_mixture(features: Features, clusters: int, *, seed: int) -> Labels:
    """A Gaussian mixture on the UMAP embedding."""
    return mixture_labels(_embedding(features, seed), clusters, starts=1, seed=seed)


def umap_hdbscan(features: Features, clusters: int, *, seed: int) -> Labels:
    """HDBSCAN on the UMAP embedding; noise joins the cluster with the nearest mean."""
    points = _embedding(features, seed)
    smallest = max(2, int(SMALLEST * len(points) / clusters))
    return _keep_largest(np.asarray(HDBSCAN(smallest, copy=True).fit_predict(points)), points, clusters)


def leiden(features: Features, clusters: int, *, seed: int) -> Labels:
    """Leiden communities of the neighbor graph, at a resolution that gives K of them."""
    _require("leidenalg", "igraph")
    import igraph
    import leidenalg

    points = unit(features)
    count = min(NEIGHBORS, len(points) - 1)
    index = nearest(torch.from_numpy(points), count).index.numpy()  # (N, S)
    pairs = np.stack([np.repeat(np.arange(len(points)), count), index.ravel()], axis=1)
    graph = igraph.Graph(len(points), np.unique(np.sort(pairs, axis=1), axis=0).tolist())
    lowest, highest = LOWEST, HIGHEST
    for _ in range(TRIES):
        middle = (lowest * highest) ** 0.5
        found = leidenalg.find_partition(
            graph, leidenalg.RBConfigurationVertexPartition, resolution_parameter=middle, seed=seed
        )
        if len(found) == clusters:
            break
        lowest, highest = (middle, highest) if len(found) < clusters else (lowest, middle)
    return _keep_largest(np.asarray(found.membership), points, clusters)


NEED_PACKAGES = ("UMAP + k-means", "UMAP + Gaussian mixture", "UMAP + HDBSCAN", "Leiden")


def installed() -> bool:
    """Whether the extra `bench` is installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("umap", "leidenalg", "igraph"))


def _embedding(features: Features, seed: int) -> NDArray[np.float32]:
    _require("umap")
    from umap import UMAP

    few = len(features) <= DIMENSIONS + 1  # spectral initialization needs more images than dimensions
    model = UMAP(
        n_components=min(DIMENSIONS, max(1, len(features) - 2)),
        n_neighbors=min(NEIGHBORS, len(features) - 1),
        min_dist=0.0,
        metric="cosine",
        init="random" if few else "spectral",
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of one thread because of the seed, and of a disconnected graph
        return np.asarray(model.fit_transform(unit(features)), dtype=np.float32)


def _keep_largest(labels: NDArray[np.integer], points: NDArray[np.float32], clusters: int) -> Labels:
    """Keep the `clusters` largest clusters, numbered from 0. All other images join the one with the nearest mean."""
    numbers, sizes = np.unique(labels[labels >= 0], return_counts=True)
    if len(numbers) == 0:
        return np.zeros(len(labels), dtype=np.int64)
    kept = numbers[np.argsort(-sizes, kind="stable")[:clusters]]
    means = np.stack([points[labels == number].mean(axis=0) for number in kept])  # (K, D)
    closest = ((means**2).sum(axis=1) - 2 * points @ means.T).argmin(axis=1)
    place = {int(number): position for position, number in enumerate(kept)}
    return np.array([place.get(int(label), near) for label, near in zip(labels, closest, strict=True)], dtype=np.int64)


def _require(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise UserError(
                f"this rival needs the package {package}; install it with: pip install umap-learn leidenalg igraph"
            )
