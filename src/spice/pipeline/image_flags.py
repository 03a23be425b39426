"""Outliers and near-duplicates, by the frozen encoder's features and by pixels. They do not depend on the clusters."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from spice.arrays import open_array
from spice.pipeline.work import Work
from spice.runs.artifacts import NEIGHBORS, SIMILARITIES
from spice.stages.labels import ImageFlags
from spice.trust.duplicates import SAME, SIDE, Pairs, compare_pixels, duplicate_of, largest_first, similar_pairs
from spice.trust.outliers import find_outliers

# Vectors without pixels are duplicates only if they are equal: how similar they usually are depends on their encoder.
EQUAL = 0.9999
# Images shrunk together: in the processor's cache this takes a quarter of the time.
AT_ONCE = 16


def flag_images(work: Work) -> tuple[ImageFlags, Pairs]:
    """Outliers and duplicates for the labels, and all pairs that were compared.

    The features are those before joint training, which moves all images of a cluster together.
    """
    similarities = open_array(work / SIMILARITIES)
    pairs = similar_pairs(open_array(work / NEIGHBORS), similarities)
    if work.inputs.store is None:
        pairs, same = pairs.above(EQUAL), EQUAL
    else:
        pairs, same = compare_pixels(pairs, lambda rows: _gray(work, rows)), SAME
    table, paths = work.inputs.collection.table, work.inputs.collection.paths
    order = largest_first(np.asarray(table["width"]), np.asarray(table["height"]), paths)
    original = duplicate_of(len(work), pairs.above(same), order)
    return ImageFlags(find_outliers(similarities).outlier, original), pairs


def _gray(work: Work, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Small gray pictures of the images in `rows`."""
    parts = (rows[start : start + AT_ONCE] for start in range(0, len(rows), AT_ONCE))
    return np.concatenate([_small(work.images.take(part)) for part in parts])


def _small(pixels: Tensor) -> NDArray[np.float32]:
    """uint8 (B, C, S, S) -> (B, SIDE, SIDE)."""
    images = pixels.float().mean(dim=1, keepdim=True)  # (B, 1, S, S)
    small = F.adaptive_avg_pool2d(images, SIDE) if images.shape[-1] >= SIDE else F.interpolate(images, SIDE)
    found: NDArray[np.float32] = torch.squeeze(small, dim=1).numpy()
    return found
