"""What the heads see of the features: all of them (the paper), or their first principal components (cheaper; ours).

A head on R components is a head on D features whose first layer has rank R: `on_features` writes it as one.

Shapes: N images, V views, D feature width, R components.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spice.data.batches import generator
from spice.models.heads import Head
from spice.stages.views import Views

# Components are found on at most this many images, drawn at random.
ENOUGH = 20_000
CHUNK = 8_192


class Components(NamedTuple):
    """An affine map of features: (features - mean) @ basis, of unit variance on average over the components."""

    mean: Tensor  # (D,)
    basis: Tensor  # (D, R)

    def of(self, views: Views) -> Views:
        """The same views, projected and held in memory."""
        return Views(
            self._table(views.plain),
            np.stack([self._table(view) for view in views.weak]),
            np.stack([self._table(view) for view in views.strong]),
            views.space,
        )

    def on_features(self, head: Head) -> Head:
        """The head that gives for features what `head` gives for their components."""
        whole = Head(len(self.mean), head.clusters, hidden=head.hidden.out_features)
        with torch.no_grad():
            weight = head.hidden.weight.cpu().double() @ self.basis.double().T  # (W, D)
            whole.hidden.weight.copy_(weight)
            whole.hidden.bias.copy_(head.hidden.bias.cpu() - weight @ self.mean.double())
            whole.out.load_state_dict(head.out.state_dict())
        return whole

    def _table(self, table: NDArray[np.floating]) -> NDArray[np.float32]:
        projected = np.empty((len(table), self.basis.shape[1]), dtype=np.float32)
        for part in _chunks(len(table)):
            features = torch.from_numpy(np.array(table[part], dtype=np.float32))
            projected[part] = ((features - self.mean) @ self.basis).numpy()
        return projected


def principal_components(features: NDArray[np.floating], components: int, *, seed: int) -> Components:
    """The directions in which the plain features (N, D) vary most, at most as many as there are."""
    drawn = torch.randperm(len(features), generator=generator(seed, "heads", "components"))[:ENOUGH].sort().values
    some = torch.from_numpy(np.array(features[drawn.numpy()], dtype=np.float32))
    mean = some.mean(dim=0)
    centered = some - mean
    variances, directions = _spectrum(centered.double())
    kept = min(components, len(some), features.shape[1])
    variances, directions = variances[:kept], directions[:, :kept]
    # Signs are the solver's whim; the largest entry of each direction is made positive.
    directions = directions * directions.gather(0, directions.abs().argmax(dim=0, keepdim=True)).sign()
    spread = variances.clamp(min=0).mean().sqrt()
    scale = 1.0 / spread if spread > 0 else spread + 1.0  # constant features stay as they are: zero
    return Components(mean, (directions * scale).float())


def _spectrum(centered: Tensor) -> tuple[Tensor, Tensor]:
    """Variances, falling, and their directions as columns: (n, D) -> (r,), (D, r).

    Few images, or features that never stir, leave many eigenvalues of the covariance at zero, and on equal eigenvalues
    `eigh` may fail. The singular values of the features themselves do not mind.
    """
    if len(centered) >= centered.shape[1]:
        with suppress(RuntimeError):  # LinAlgError, which torch does not export to type checkers
            variances, directions = torch.linalg.eigh(centered.T @ centered / len(centered))  # rising
            return variances.flip(dims=[0]), directions.flip(dims=[1])
    _, singular, directions = torch.linalg.svd(centered, full_matrices=False)
    return singular.square() / len(centered), directions.T


def _chunks(images: int) -> Iterator[slice]:
    for start in range(0, images, CHUNK):
        yield slice(start, start + CHUNK)
