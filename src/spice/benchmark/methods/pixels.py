"""Images as bare numbers, for the methods that learn no features: k-means, spectral, agglomerative, NMF.

Shapes: N images, C channels, S pixels on a side, K clusters.
"""

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

from spice.augment import geometry
from spice.benchmark.rivals.classic import kmeans_labels
from spice.benchmark.rivals.rival import Features, Labels
from spice.data.images import Images

CHUNK = 512


def bare(images: Images, side: int) -> NDArray[np.float32]:
    """Pixels in (0, 1], shrunk to `side` where they are larger: (N, C * S * S)."""
    rows = []
    for start in range(0, len(images), CHUNK):
        pixels = images.take(torch.arange(start, min(start + CHUNK, len(images))))
        if pixels.shape[2] > side:
            pixels = geometry.fitted(pixels, side)
        # Not zero: a black image has no direction.
        rows.append((pixels.float() + 1.0) / 256.0)
    flat: NDArray[np.float32] = torch.cat(rows).flatten(start_dim=1).numpy()
    return flat


def nmf(features: Features, clusters: int, *, seed: int) -> Labels:
    """k-means on the K weights by which nonnegative parts add up to an image (Cai et al., 2009, without its graph)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        weights = NMF(clusters, init="nndsvda", random_state=seed, max_iter=200).fit_transform(features)  # (N, K)
    return kmeans_labels(weights, clusters, seed=seed)
