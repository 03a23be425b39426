"""Clustering methods that are older than deep features, each with its usual settings, on unit vectors.

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

SPECTRAL_NEIGHBORS = 10  # as scikit-learn's own graph has
COMPONENTS = 64  # of the Gaussian mixture: full covariances need few dimensions
# Ward: all pairs of this many images are held at once (0.8 GB); beyond, only neighbors are merged.
ALL_PAIRS, WARD_NEIGHBORS, WARD_COMPONENTS = 10_000, 20, 128
SPHERICAL_STARTS, SPHERICAL_STEPS = 10, 300


class Rival(Protocol):
    """A clustering method with its published or usual settings; the same seed gives the same labels."""

    def __call__(self, features: Features, clusters: int, *, seed: int) -> Labels: ...


def unit(features: Features) -> NDArray[np.float32]:
    """Rows of length one, (N, D): every rival clusters directions, as SPICE's prototypes do."""
    rows: NDArray[np.float32] = unit_rows(torch.as_tensor(np.asarray(features))).numpy()
    return rows


def kmeans(features: Features, clusters: int, *, seed: int) -> Labels:
    """k-means, which stands beside every result."""
    return kmeans_labels(unit(features), clusters, seed=seed)


def kmeans_labels(points: Features, clusters: int, *, seed: int) -> Labels:
    """k-means on points (N, D) as they are: the best of ten starts."""
    return np.asarray(KMeans(clusters, n_init=10, random_state=seed).fit_predict(points), dtype=np.int64)


def nearest_means(features: Features, labels: Labels, others: Features) -> Labels:
    """For other images (A, D), the cluster of (N, D) whose mean direction is nearest, (A,)."""
    points, found = unit(features), np.unique(labels)
    means = np.stack([points[labels == cluster].mean(axis=0) for cluster in found])
    nearest = torch.cdist(torch.from_numpy(unit(others)), torch.from_numpy(means)).argmin(dim=1).numpy()
    chosen: Labels = found[nearest]
    return chosen


def nmf(features: Features, clusters: int, *, seed: int) -> Labels:
    """k-means on the K weights by which nonnegative parts add up to an image (Cai et al., 2009, without its graph)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        weights = NMF(clusters, init="nndsvda", random_state=seed, max_iter=200).fit_transform(features)  # (N, K)
    return kmeans_labels(weights, clusters, seed=seed)


def mixture(features: Features, clusters: int, *, seed: int) -> Labels:
    """A mixture of Gaussians on principal components, the likeliest of three starts from k-means.

    There are at least four images for every dimension of a covariance.
    """
    points = unit(features)
    width = max(1, min(COMPONENTS, points.shape[1], len(points) // (4 * clusters)))
    reduced = PCA(width, random_state=seed).fit_transform(points).astype(np.float64)
    # In units of the data: a fixed floor would swallow the small variances of unit vectors.
    floor = 1e-3 * float(reduced.var(axis=0).mean()) + 1e-12
    model = GaussianMixture(clusters, n_init=3, reg_covar=floor, random_state=seed)
    return np.asarray(model.fit_predict(reduced), dtype=np.int64)


def spectral(features: Features, clusters: int, *, seed: int) -> Labels:
    """k-means on the first eigenvectors of the normalized Laplacian of the graph of nearest neighbors."""
    model = SpectralClustering(clusters, affinity="precomputed", n_init=10, random_state=seed)
    with warnings.catch_warnings():
        # Well separated clusters fall apart into components: that is the answer, not a fault.
        warnings.filterwarnings("ignore", message="Graph is not fully connected")
        return np.asarray(model.fit_predict(_graph(features, SPECTRAL_NEIGHBORS)), dtype=np.int64)


def agglomerative(features: Features, clusters: int, *, seed: int) -> Labels:  # noqa: ARG001 - nothing here is random
    """From single images upward, the merge that adds least variance first (Ward)."""
    connectivity = _graph(features, WARD_NEIGHBORS) if len(features) > ALL_PAIRS else None
    model = AgglomerativeClustering(clusters, linkage="ward", connectivity=connectivity)
    return np.asarray(model.fit_predict(unit(features)), dtype=np.int64)


def ward_on_components(features: Features, clusters: int, *, seed: int) -> Labels:
    """Ward on principal components, which is what scikit-learn's users are advised to do with wide features."""
    points = unit(features)
    reduced = PCA(min(WARD_COMPONENTS, *points.shape), random_state=seed).fit_transform(points)
    connectivity = _graph(features, WARD_NEIGHBORS) if len(features) > ALL_PAIRS else None
    model = AgglomerativeClustering(clusters, linkage="ward", connectivity=connectivity)
    return np.asarray(model.fit_predict(reduced), dtype=np.int64)


def _graph(features: Features, neighbors: int) -> csr_array:
    """Symmetric graph (N, N): 1 between images that are both each other's neighbors, 1/2 where only one is."""
    points = unit(features)
    count = min(neighbors, len(points) - 1)
    index = nearest(torch.from_numpy(points), count).index.numpy()  # (N, S)
    # 32 bits: scikit-learn takes no wider ones.
    starts = np.arange(0, index.size + 1, count, dtype=np.int32)
    edges = csr_array((np.ones(index.size), index.ravel().astype(np.int32), starts), shape=(len(points), len(points)))
    return csr_array((edges + edges.T) / 2)


def spherical(features: Features, clusters: int, *, seed: int) -> Labels:
    """Spherical k-means: centers are directions, and an image belongs to the one with the largest cosine.

    Of ten starts, the one with the largest sum of cosines.
    """
    points = torch.from_numpy(unit(features))  # (N, D)
    starts = (generator(seed, "spherical", start) for start in range(SPHERICAL_STARTS))
    runs = [_spherical_run(points, _spherical_start(points, clusters, random)) for random in starts]
    return max(runs, key=lambda run: run[1])[0].numpy()


def _spherical_run(points: Tensor, centers: Tensor) -> tuple[Tensor, float]:
    """Labels (N,) where they change no more, and the sum of cosines."""
    labels = torch.full((len(points),), -1)
    for _ in range(SPHERICAL_STEPS):
        cosine, closest = (points @ centers.T).max(dim=1)  # (N,)
        if torch.equal(closest, labels):
            break
        labels = closest
        members = one_hot(labels, len(centers)).float()  # (N, K)
        # An empty cluster restarts at the image that is farthest from its center.
        empty = (members.sum(dim=0) == 0).nonzero().squeeze(dim=1)
        centers = normalize(members.T @ points, dim=1)  # (K, D)
        centers[empty] = points[cosine.argsort()[: len(empty)]]
    return labels, cosine.sum().item()


def _spherical_start(points: Tensor, clusters: int, random: torch.Generator) -> Tensor:
    """Centers by k-means++: each new one at an image drawn by its squared distance to those before, (K, D)."""
    first = torch.randint(len(points), (1,), generator=random)
    centers = points[first]  # (1, D)
    distance = (1 - points @ centers[0]).clamp_(min=0)  # half the squared distance
    for _ in range(clusters - 1):
        weights = distance + 1e-12  # duplicates may leave no other choice
        chosen = points[torch.multinomial(weights, 1, generator=random)]  # (1, D)
        centers = torch.cat([centers, chosen])
        distance = torch.minimum(distance, (1 - points @ chosen[0]).clamp_(min=0))
    return centers
