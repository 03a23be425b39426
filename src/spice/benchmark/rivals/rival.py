"""What every rival of SPICE on frozen features is: features and a number of clusters in, labels out."""

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from spice.neighbors import unit_rows

Features = NDArray[np.floating]
Labels = NDArray[np.int64]


class Rival(Protocol):
    """A clustering method with its published or usual settings; the same seed gives the same labels."""

    def __call__(self, features: Features, clusters: int, *, seed: int) -> Labels: ...


def unit(features: Features) -> NDArray[np.float32]:
    """Rows of length one, (N, D): every rival clusters directions, as SPICE's prototypes do."""
    rows: NDArray[np.float32] = unit_rows(torch.as_tensor(np.asarray(features))).numpy()
    return rows
