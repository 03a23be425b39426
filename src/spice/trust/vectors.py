"""Feature vectors as unit vectors.

Shapes: N images, D feature width.
"""

import numpy as np
from numpy.typing import NDArray


def unit_length(features: NDArray[np.floating]) -> NDArray[np.float32]:
    """Each row divided by its norm, in float32: (N, D) -> (N, D). Rows of zeros stay zero."""
    rows = np.asarray(features, dtype=np.float32)
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))
