"""Published criteria for the number of groups. None uses true labels.

Shapes: n images, D features, C numbers of groups, K groups.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.metrics import adjusted_rand_score, calinski_harabasz_score, silhouette_score

from spice.stages.groups.communities import neighbor_graph
from spice.stages.groups.curve import Points, nearest_points
from spice.stages.groups.label_spreading import normalized_adjacency

Labels = NDArray[np.int32]
DISTORTION = 0.1  # e in the coding length
REFERENCES = 3  # uniform samples of the gap statistic


class Sweep:
    """Points (n, D), and k-means for every number of groups, computed once for all criteria."""

    def __init__(self, points: Points, counts: Sequence[int], *, seed: int) -> None:
        self.points, self.counts, self.seed = points, list(counts), seed

    @cached_property
    def fits(self) -> list[KMeans]:
        return [self.kmeans(self.points, count) for count in self.counts]

    def kmeans(self, points: Points, clusters: int) -> KMeans:
        return KMeans(clusters, n_init=1, random_state=self.seed).fit(points)

    def best(self, values: Sequence[float]) -> int:
        return self.counts[int(np.argmax(values))]


def silhouette(sweep: Sweep) -> int:
    """The largest mean silhouette (Rousseeuw 1987)."""
    return sweep.best([silhouette_score(sweep.points, fit.labels_) for fit in sweep.fits])


def calinski_harabasz(sweep: Sweep) -> int:
    """The largest ratio of the variance between groups to that within groups (1974)."""
    return sweep.best([calinski_harabasz_score(sweep.points, fit.labels_) for fit in sweep.fits])


def coding_length(sweep: Sweep) -> int:
    """The shortest lossy code (Ma et al. 2007): sum of (m + D) / 2 logdet(I + D / (e m) Z'Z) - m ln(m / n)."""
    points, (images, width) = sweep.points, sweep.points.shape

    def length(labels: Labels) -> float:
        total = 0.0
        for group in range(int(labels.max()) + 1):
            members = points[labels == group]
            if len(members):
                scatter = np.eye(width) + width / (DISTORTION * len(members)) * members.T @ members
                total += (len(members) + width) / 2 * np.linalg.slogdet(scatter)[1]
                total -= len(members) * np.log(len(members) / images)
        return total

    return sweep.best([-length(fit.labels_) for fit in sweep.fits])


def gap(sweep: Sweep) -> int:
    """The gap statistic: the first K with gap(K) >= gap(K + 1) - s(K + 1) (Tibshirani et al. 2001)."""
    random, (low, high) = np.random.default_rng(sweep.seed), (sweep.points.min(axis=0), sweep.points.max(axis=0))
    references = [random.uniform(low, high, size=sweep.points.shape).astype("f4") for _ in range(REFERENCES)]
    spread = np.log([[sweep.kmeans(points, count).inertia_ for count in sweep.counts] for points in references])
    gaps = spread.mean(axis=0) - np.log([fit.inertia_ for fit in sweep.fits])
    error = spread.std(axis=0) * np.sqrt(1 + 1 / REFERENCES)
    first = np.flatnonzero(gaps[:-1] >= gaps[1:] - error[1:])
    return sweep.counts[int(first[0])] if len(first) else sweep.best(gaps)


def eigengap(sweep: Sweep) -> int:
    """The largest gap between eigenvalues of the neighbor graph's normalized adjacency (von Luxburg 2007)."""
    from scipy.sparse.linalg import eigsh

    most, graph = sweep.counts[-1], normalized_adjacency(neighbor_graph(sweep.points))
    values = eigsh(graph, k=most + 1, which="LA", v0=np.ones(len(sweep.points)))[0][::-1]
    return sweep.best([values[count - 1] - values[count] for count in sweep.counts])


def half_split(sweep: Sweep) -> int:
    """The K with the most similar groups when found on each half of the images (Lange et al. 2004)."""
    order = np.random.default_rng(sweep.seed).permutation(len(sweep.points))
    halves = sweep.points[order[::2]], sweep.points[order[1::2]]

    def agreement(count: int) -> float:
        one, other = (sweep.kmeans(half, count) for half in halves)
        return float(adjusted_rand_score(one.predict(sweep.points), other.predict(sweep.points)))

    return sweep.best([agreement(count) for count in sweep.counts])


def x_means(sweep: Sweep) -> int:
    """Splits groups in two as long as the Bayesian information criterion improves (Pelleg and Moore 2000)."""

    def count(points: Points) -> int:
        if len(points) < 20:
            return 1
        halves = sweep.kmeans(points, 2)
        parts = [points[halves.labels_ == side] for side in (0, 1)]
        if min(map(len, parts)) < 5 or _bic(parts) <= _bic([points]):
            return 1
        return sum(count(part) for part in parts)

    return max(2, min(count(sweep.points), sweep.counts[-1]))


def hdbscan(sweep: Sweep) -> int:
    """HDBSCAN on a ten-dimensional UMAP embedding (McInnes and Healy 2017)."""
    umap = import_module("umap")
    embedded = umap.UMAP(n_components=10, n_neighbors=15, min_dist=0.0, random_state=sweep.seed)
    labels = HDBSCAN(min_cluster_size=15, copy=True).fit_predict(embedded.fit_transform(sweep.points))
    return max(2, int(labels.max()) + 1)


def leiden(sweep: Sweep) -> int:
    """Leiden communities of the neighbor graph, by modularity (Traag et al. 2019)."""
    igraph, algorithm = import_module("igraph"), import_module("leidenalg")
    neighbors = nearest_points(sweep.points, 15)
    edges = [(image, int(other)) for image, row in enumerate(neighbors) for other in row]
    graph = igraph.Graph(n=len(neighbors), edges=edges).simplify()
    found = algorithm.find_partition(graph, algorithm.ModularityVertexPartition, seed=sweep.seed)
    return max(2, len(found))


def _bic(parts: list[Points]) -> float:
    """The Bayesian information criterion of spherical Gaussians with one variance."""
    images, width = sum(map(len, parts)), parts[0].shape[1]
    rest = sum(float(((part - part.mean(axis=0)) ** 2).sum()) for part in parts)
    variance = max(rest / (width * max(images - len(parts), 1)), 1e-12)
    likelihood = sum(len(part) * np.log(len(part) / images) for part in parts)
    likelihood -= images * width / 2 * np.log(2 * np.pi * variance) + (images - len(parts)) * width / 2
    return float(likelihood - (len(parts) * (width + 1)) / 2 * np.log(images))


CRITERIA: dict[str, Callable[[Sweep], int]] = {
    "silhouette": silhouette,
    "Calinski-Harabasz": calinski_harabasz,
    "coding length": coding_length,
    "gap": gap,
    "eigengap": eigengap,
    "half-split stability": half_split,
    "X-means": x_means,
    "HDBSCAN on UMAP": hdbscan,
    "Leiden": leiden,
}
# Packages of the extra `bench`.
NEEDS = {"HDBSCAN on UMAP": ("umap",), "Leiden": ("igraph", "leidenalg")}
