"""The rivals of SPICE's second stage, all on the same frozen features."""

from spice.benchmark.rivals import classic, embedded, nnm, scan, temi, turtle
from spice.benchmark.rivals.classic import Features, Labels, Rival

RIVALS: dict[str, Rival] = {
    "k-means": classic.kmeans,
    "spherical k-means": classic.spherical,
    "Gaussian mixture": classic.mixture,
    "spectral": classic.spectral,
    "agglomerative": classic.agglomerative,
    "Ward on PCA": classic.ward_on_components,
    "UMAP + k-means": embedded.umap_kmeans,
    "UMAP + Gaussian mixture": embedded.umap_mixture,
    "UMAP + HDBSCAN": embedded.umap_hdbscan,
    "Leiden": embedded.leiden,
    "SCAN": scan.fit,
    "NNM": nnm.fit,
    "TEMI": temi.fit,
    "TURTLE": turtle.fit,
}


def fit(name: str, features: Features, clusters: int, *, seed: int) -> Labels:
    """Labels (N,) from 0 to clusters - 1 for features (N, D), by the rival called `name`."""
    if name not in RIVALS:
        raise ValueError(f"unknown rival {name!r}; choose one of {', '.join(RIVALS)}")
    if features.ndim != 2:
        raise ValueError(f"features must have shape (images, width), got {features.shape}")
    if not 1 <= clusters <= len(features):
        raise ValueError(f"cannot make {clusters} clusters from {len(features)} images")
    return RIVALS[name](features, clusters, seed=seed)
