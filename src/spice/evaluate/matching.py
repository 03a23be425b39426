"""Which class each cluster stands for: the one-to-one matching that makes most images right (Hungarian method).

Shapes: K clusters, C classes.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

UNMATCHED = -1


def match(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each cluster its class, at most one cluster a class: (K, C) images in common -> (K,).

    With more clusters than classes, the clusters that are left over stay UNMATCHED.
    """
    clusters, classes = linear_sum_assignment(counts, maximize=True)
    matched = np.full(counts.shape[0], UNMATCHED, dtype=np.int64)
    matched[clusters] = classes
    return matched
