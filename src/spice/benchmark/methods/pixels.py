"""Images as bare numbers, for the methods that learn no features: k-means, spectral, agglomerative, NMF.

Shapes: N images, C channels, S pixels on a side.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from spice.augment import geometry
from spice.benchmark.methods.codes import CHUNK, Images


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
