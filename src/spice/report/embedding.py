"""Images as points on a plane: near points are images with similar features.

t-SNE of landmarks, then every other image among the landmarks that it resembles most: seconds at any size.

Shapes: N images, D feature width, C components, L landmarks.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.manifold import TSNE

Floats = NDArray[np.float32]

LANDMARKS = 1500
# t-SNE needs neighborhoods; fewer images than this are shown as PCA lays them.
FEWEST = 30
_PERPLEXITY, _ITERATIONS = 30.0, 500
_COMPONENTS = 50
_NEAREST = 3
_CHUNK = 8192


def embed(features: Floats) -> Floats:
    """Features (N, D) -> points (N, 2) in 0..1, the same for the same features."""
    # Images lie in the order of their content hashes, so every so-many-th image is a fair draw.
    landmarks = np.unique(np.linspace(0, len(features) - 1, min(LANDMARKS, len(features))).astype(np.int64))
    components = _principal(features, landmarks)  # (N, C)
    if len(landmarks) < FEWEST:
        return _to_unit_square(_two_wide(components))
    perplexity = min(_PERPLEXITY, (len(landmarks) - 1) / 3)
    tsne = TSNE(init="pca", perplexity=perplexity, max_iter=_ITERATIONS, random_state=0)
    placed: Floats = tsne.fit_transform(components[landmarks])  # (L, 2)
    points = placed if len(landmarks) == len(features) else _among(components, components[landmarks], placed)
    points[landmarks] = placed
    return _to_unit_square(points)


def _principal(features: Floats, landmarks: NDArray[np.int64]) -> Floats:
    """The main directions of the landmarks' unit features, for all images: (N, C)."""
    some = _unit(features[landmarks])
    center = some.mean(axis=0)
    directions = np.linalg.svd(some - center, full_matrices=False)[2][:_COMPONENTS]  # (C, D)
    parts = [
        (_unit(features[start : start + _CHUNK]) - center) @ directions.T for start in range(0, len(features), _CHUNK)
    ]
    return np.concatenate(parts)


def _among(components: Floats, known: Floats, placed: Floats) -> Floats:
    """Each image at the mean of its nearest landmarks' places, the nearer the heavier: (N, 2)."""
    found = np.empty((len(components), 2), dtype=np.float32)
    squares = (known**2).sum(axis=1)  # (L,)
    for start in range(0, len(components), _CHUNK):
        here = components[start : start + _CHUNK]
        distance = squares - 2 * here @ known.T + (here**2).sum(axis=1, keepdims=True)  # (B, L)
        nearest = np.argpartition(distance, _NEAREST, axis=1)[:, :_NEAREST]  # (B, 3)
        weight = 1 / (np.maximum(np.take_along_axis(distance, nearest, axis=1), 0) + 1e-6)
        weight /= weight.sum(axis=1, keepdims=True)
        found[start : start + _CHUNK] = (placed[nearest] * weight[..., None]).sum(axis=1)
    return found


def _unit(features: Floats) -> Floats:
    return np.asarray(features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12), dtype=np.float32)


def _two_wide(components: Floats) -> Floats:
    """The first two components; zeros where there are fewer."""
    return np.pad(components[:, :2], ((0, 0), (0, max(0, 2 - components.shape[1]))))


def _to_unit_square(points: Floats) -> Floats:
    """Scaled alike in both directions, so that distances keep their proportions."""
    low = points.min(axis=0)
    extent = max(float((points.max(axis=0) - low).max()), 1e-12)
    centered = (points - low) / extent
    return np.asarray(centered + (1 - centered.max(axis=0)) / 2, dtype=np.float32)
