"""Images as points on a plane: images with similar features are close together.

t-SNE places landmarks, and every other image is placed beside its most similar landmark. This takes seconds for any
number of images.

Shapes: N images, D feature width, C components, L landmarks.
"""

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from spice.trust.vectors import unit_length

Floats = NDArray[np.float32]

LANDMARKS = 1000
# t-SNE needs neighborhoods; fewer images than this are placed by PCA.
FEWEST = 30
_PERPLEXITY, _ITERATIONS = 30.0, 500
_COMPONENTS = 50
_CHUNK = 8192
_LEAST_SPREAD = 1e-6  # unit features with a smaller standard deviation differ only by rounding


def embed(features: Floats) -> Floats:
    """Features (N, D) -> points (N, 2) in 0..1, the same for the same features."""
    with threadpool_limits(1):  # with so few points, threads would only wait for each other
        return _embed(features)


def _embed(features: Floats) -> Floats:
    # Images are in the order of their content hashes, so every n-th image is a fair sample.
    landmarks = np.unique(np.linspace(0, len(features) - 1, min(LANDMARKS, len(features))).astype(np.int64))
    components = _principal(features, landmarks)  # (N, C)
    known = components[landmarks]  # (L, C)
    if len(landmarks) < FEWEST or float(known.std(axis=0).max()) < _LEAST_SPREAD:
        return _to_unit_square(_two_wide(components))
    placed = _tsne(known)
    points = _beside(components, known, placed)
    points[landmarks] = placed
    return _to_unit_square(points)


def _tsne(components: Floats) -> Floats:
    """(L, C) -> (L, 2)."""
    from sklearn.manifold import TSNE  # late: slow to import

    # scikit-learn's own start from PCA crashes if the second component has no spread.
    start = _two_wide(components)
    start = start / start.std() * 1e-4 + np.random.default_rng(0).normal(0, 1e-6, start.shape)
    perplexity = min(_PERPLEXITY, (len(components) - 1) / 3)
    tsne = TSNE(init=start.astype(np.float32), perplexity=perplexity, max_iter=_ITERATIONS, random_state=0)
    return np.asarray(tsne.fit_transform(components), dtype=np.float32)


def _principal(features: Floats, landmarks: NDArray[np.int64]) -> Floats:
    """The main directions of the landmarks' unit features, for all images: (N, C)."""
    some = unit_length(features[landmarks])
    center = some.mean(axis=0)
    directions = np.linalg.svd(some - center, full_matrices=False)[2][:_COMPONENTS]  # (C, D)
    starts = range(0, len(features), _CHUNK)
    return np.concatenate([(unit_length(features[start : start + _CHUNK]) - center) @ directions.T for start in starts])


def _beside(components: Floats, known: Floats, placed: Floats) -> Floats:
    """Each image beside its most similar landmark: (N, 2)."""
    from scipy.spatial import KDTree  # late: slow to import

    nearest = np.empty(len(components), dtype=np.int64)
    squares = (known**2).sum(axis=1)  # (L,)
    for start in range(0, len(components), _CHUNK):
        here = components[start : start + _CHUNK]
        nearest[start : start + _CHUNK] = (squares - 2 * here @ known.T).argmin(axis=1)  # (B, L) -> (B,)
    # About as far from it as landmarks are from each other, so that images do not hide each other.
    distances = np.asarray(KDTree(placed).query(placed, k=2)[0])  # (L, 2): to itself, to the nearest other
    apart = float(np.median(distances[:, 1]))
    jitter = np.random.default_rng(0).normal(0, apart / 2, size=(len(components), 2))
    return np.asarray(placed[nearest] + jitter, dtype=np.float32)


def _two_wide(components: Floats) -> Floats:
    """The first two components; zeros if there are fewer."""
    return np.pad(components[:, :2], ((0, 0), (0, max(0, 2 - components.shape[1]))))


def _to_unit_square(points: Floats) -> Floats:
    """Scaled equally in both directions, so that distances keep their proportions."""
    low = points.min(axis=0)
    extent = max(float((points.max(axis=0) - low).max()), 1e-12)
    centered = (points - low) / extent
    return np.asarray(centered + (1 - centered.max(axis=0)) / 2, dtype=np.float32)
