"""Classic clustering methods with their usual settings, on unit vectors.

Shapes: N images, D feature width, K clusters, S neighbors.
"""

import warnings
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.cluster import AgglomerativeClustering, KMeans, SpectralClustering
from sklearn.decomposition import NMF, PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from spice.neighbors import nearest, unit_rows
from spice.randomness import generator

Features = NDArray[np.floating]
Labels = NDArray[np.int64]

SPECTRAL_NEIGHBORS = 10  # scikit-learn's default
COMPONENTS = 64  # of the Gaussian mixture, whose full covariances need few dimensions
# Ward: up to this many images, all pairs may be merged (0.8 GB); with more, only neighbors.
ALL_PAIRS, WARD_NEIGHBORS, WARD_COMPONENTS = 10_000, 20, 128
SPHERICAL_STARTS, SPHERICAL_STEPS = 10, 300


class Rival(Protocol):
    """A clustering method with its published or usual settings. The same seed gives the same labels."""

    def __call__(self, features: Features, clusters: int, *, seed: int) -> Labels: ...


def unit(features: Features) -> NDArray[np.float32]:
    """Features scaled to unit length, (N, D): every rival clusters directions, as SPICE's prototypes do."""
    rows: NDArray[np.float32] = unit_rows(torch.as_tensor(np.asarray(features))).numpy()
    return rows


def kmeans(features: Features, clusters: int, *, seed: int) -> Labels:
    """k-means on unit vectors: the best of ten starts."""
    return kmeans_labels(unit(features), clusters, seed=seed)


def kmeans_labels(points: Features, clusters: int, *, seed: int) -> Labels:
    """k-means on points (N, D) as they are: the best of ten starts."""
    return np.asarray(KMeans(clusters, n_init=10, random_state=seed).fit_predict(points), dtype=np.int64)


def nearest_means(features: Features, labels: Labels, others: Features) -> Labels:
    """For each of other images (A, D), the cluster of images (N, D) whose mean direction is nearest: (A,)."""
    points, found = unit(features), np.unique(labels)
    means = np.stack([points[labels == cluster].mean(axis=0) for cluster in found])
    nearest = torch.cdist(torch.from_numpy(unit(others)), torch.from_numpy(means)).argmin(dim=1).numpy()
    chosen: Labels = found[nearest]
    return chosen


def nmf(features: Features, clusters: int, *, seed: int) -> Labels:
    """k-means on the weights of a nonnegative matrix factorization (Cai et al., 2009, without its graph)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        weights = NMF(clusters, init="nndsvda", random_state=seed, max_iter=200).fit_transform(features)  # (N, K)
    return kmeans_labels(weights, clusters, seed=seed)


def mixture(features: Features, clusters: int, *, seed: int) -> Labels:
    """A Gaussian mixture on principal components: the most likely of three starts from k-means.

    There are at least four images per cluster for each component.
    """
    points = unit(features)
    width = max(1, min(COMPONENTS, points.shape[1], len(points) // (4 * clusters)))
    return mixture_labels(PCA(width, random_state=seed).fit_transform(points), clusters, starts=3, seed=seed)


def mixture_labels(points: Features, clusters: int, *, starts: int, seed: int) -> Labels:
    """A Gaussian mixture on points (N, D) as they are."""
    points = points.astype(np.float64)
    # Relative to the data: scikit-learn's fixed floor would exceed the small variances of unit vectors.
    floor = 1e-3 * float(points.var(axis=0).mean()) + 1e-12
    model = GaussianMixture(clusters, n_init=starts, reg_covar=floor, random_state=seed)
    return np.asarray(model.fit_predict(points), dtype=np.int64)


def spectral(features: Features, clusters: int, *, seed: int) -> Labels:
    """k-means on the first eigenvectors of the normalized Laplacian of the nearest-neighbor graph."""
    model = SpectralClustering(clusters, affinity="precomputed", n_init=10, random_state=seed)
    with warnings.catch_warnings():
        # Well separated clusters are components of their own, which is no error.
        warnings.filterwarnings("ignore", message="Graph is not fully connected")
        return np.asarray(model.fit_predict(_graph(features, SPECTRAL_NEIGHBORS)), dtype=np.int64)


def agglomerative(features: Features, clusters: int, *, seed: int) -> Labels:  # noqa: ARG001 - nothing here is random
    """Agglomerative clustering with Ward linkage."""
    return _ward(unit(features), features, clusters)


def ward_on_components(features: Features, clusters: int, *, seed: int) -> Labels:
    """Ward linkage on principal components, the usual advice for wide features."""
    points = unit(features)
    reduced = PCA(min(WARD_COMPONENTS, *points.shape), random_state=seed).fit_transform(points)
    return _ward(reduced, features, clusters)


def _ward(points: Features, features: Features, clusters: int) -> Labels:
    """Ward linkage on points (N, R). Of many images, only neighbors by their features (N, D) are merged."""
    connectivity = _graph(features, WARD_NEIGHBORS) if len(features) > ALL_PAIRS else None
    model = AgglomerativeClustering(clusters, linkage="ward", connectivity=connectivity)
    return np.asarray(model.fit_predict(points), dtype=np.int64)


def _graph(features: Features, neighbors: int) -> csr_array:
    """Symmetric graph (N, N): 1 if both images are neighbors of each other, 1/2 if only one is."""
    points = unit(features)
    count = min(neighbors, len(points) - 1)
    index = nearest(torch.from_numpy(points), count).index.numpy()  # (N, S)
    # scikit-learn needs 32-bit indices.
    starts = np.arange(0, index.size + 1, count, dtype=np.int32)
    edges = csr_array((np.ones(index.size), index.ravel().astype(np.int32), starts), shape=(len(points), len(points)))
    return csr_array((edges + edges.T) / 2)


def spherical(features: Features, clusters: int, *, seed: int) -> Labels:
    """Spherical k-means: each image belongs to the center with the largest cosine; the best of ten starts."""
    points = torch.from_numpy(unit(features))  # (N, D)
    starts = (generator(seed, "spherical", start) for start in range(SPHERICAL_STARTS))
    runs = [_spherical_run(points, _spherical_start(points, clusters, random)) for random in starts]
    return max(runs, key=lambda run: run[1])[0].numpy()


def _spherical_run(points: Tensor, centers: Tensor) -> tuple[Tensor, float]:
    """Labels (N,) after convergence, and the sum of cosines."""
    labels = torch.full((len(points),), -1)
    for _ in range(SPHERICAL_STEPS):
        cosine, closest = (points @ centers.T).max(dim=1)  # (N,)
        if torch.equal(closest, labels):
            break
        labels = closest
        members = one_hot(labels, len(centers)).float()  # (N, K)
        # An empty cluster restarts at the image farthest from its center.
        empty = (members.sum(dim=0) == 0).nonzero().squeeze(dim=1)
        centers = normalize(members.T @ points, dim=1)  # (K, D)
        centers[empty] = points[cosine.argsort()[: len(empty)]]
    return labels, cosine.sum().item()


def _spherical_start(points: Tensor, clusters: int, random: torch.Generator) -> Tensor:
    """Initial centers by k-means++, (K, D)."""
    first = torch.randint(len(points), (1,), generator=random)
    centers = points[first]  # (1, D)
    distance = (1 - points @ centers[0]).clamp_(min=0)  # half the squared distance
    for _ in range(clusters - 1):
        weights = distance + 1e-12  # not all zero, even if all images are duplicates of centers
        chosen = points[torch.multinomial(weights, 1, generator=random)]  # (1, D)
        centers = torch.cat([centers, chosen])
        distance = torch.minimum(distance, (1 - points @ chosen[0]).clamp_(min=0))
    return centers
