"""Near-duplicates: images that are almost the same as another one, from the similarities to the nearest images.

Shapes: N images, S neighbors, P pairs.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

THRESHOLD = 0.95
NEAREST = 10  # copies of one image that are found, besides those that a copy leads to


class Pairs(NamedTuple):
    """Pairs of similar images."""

    first: NDArray[np.int64]  # (P,)
    second: NDArray[np.int64]  # (P,)
    similarity: NDArray[np.float32]  # (P,)

    def above(self, threshold: float) -> "Pairs":
        """The pairs at least as similar as this."""
        kept = self.similarity >= threshold
        return Pairs(self.first[kept], self.second[kept], self.similarity[kept])


def similar_pairs(neighbors: NDArray[np.int64], similarities: NDArray[np.float32], threshold: float) -> Pairs:
    """The pairs at least this similar, each once, from neighbors and similarities (N, S)."""
    count = min(NEAREST, neighbors.shape[1])
    rows, places = np.nonzero(similarities[:, :count] >= threshold)
    pairs = np.stack([rows, neighbors[rows, places]], axis=1)  # (P, 2)
    pairs.sort(axis=1)
    once, at = np.unique(pairs, axis=0, return_index=True)
    return Pairs(once[:, 0], once[:, 1], similarities[rows, places][at])


def duplicate_of(images: int, pairs: Pairs, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """For every image the one that it repeats, -1 for none: (N,).

    In `order`, each image that repeats none keeps its place and takes the images that pair with it. So every duplicate
    is similar to the one it names, and a chain of small changes is not one big duplicate.
    """
    ends = np.concatenate([pairs.first, pairs.second]), np.concatenate([pairs.second, pairs.first])
    by_first = np.argsort(ends[0], kind="stable")
    partner, starts = ends[1][by_first], np.searchsorted(ends[0][by_first], np.arange(images + 1))
    original = np.full(images, -1, dtype=np.int64)
    keeps = np.zeros(images, dtype=np.bool_)
    for row in order[np.diff(starts)[order] > 0].tolist():
        if original[row] < 0:
            keeps[row] = True
            others = partner[starts[row] : starts[row + 1]]
            original[others[~keeps[others] & (original[others] < 0)]] = row
    return original
