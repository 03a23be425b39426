"""The methods that SPICE's second stage is measured against, all on the same frozen features."""

from spice.benchmark.rivals import agglomerative, kmeans, mixture, scan, spectral, spherical, temi
from spice.benchmark.rivals.rival import Features, Labels, Rival, check

RIVALS: dict[str, Rival] = {
    "k-means": kmeans.fit,
    "spherical k-means": spherical.fit,
    "Gaussian mixture": mixture.fit,
    "spectral": spectral.fit,
    "agglomerative": agglomerative.fit,
    "SCAN": scan.fit,
    "TEMI": temi.fit,
}


def fit(name: str, features: Features, clusters: int, *, seed: int) -> Labels:
    """Labels (N,) in 0 .. clusters - 1 of features (N, D), by the rival called `name`."""
    if name not in RIVALS:
        raise ValueError(f"there is no rival called {name!r}: choose one of {', '.join(RIVALS)}")
    check(features, clusters)
    return RIVALS[name](features, clusters, seed=seed)


__all__ = ["RIVALS", "Features", "Labels", "Rival", "fit"]
