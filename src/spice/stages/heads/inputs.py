"""What the heads see: how many images at a time, and of these all features (the paper) or their principal components.

A head on R components is a head on D features whose first layer has rank R: `on_features` writes it as one.

Shapes: N images, V views, D feature width, R components.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from spice.engine.processes import ALONE, Processes
from spice.errors import UserError
from spice.models.heads import Head
from spice.randomness import generator
from spice.settings import HeadSettings
from spice.stages.views import Views

# Components are found on at most this many images, drawn at random.
ENOUGH = 20_000
# ... with a few more directions than wanted, until they catch no more of the variance, or for so many rounds.
MORE, SETTLED, ROUNDS = 32, 1e-4, 50
CHUNK = 8_192


def epochs_for(images: int, batch: int, settings: HeadSettings) -> int:
    """As many epochs as are set, or more where a small collection would get too few steps of them."""
    return max(settings.epochs, math.ceil(settings.least_steps / (images // batch)))


def batch_size(images: int, settings: HeadSettings, processes: Processes = ALONE) -> int:
    """M for this many images: as set, or all of them where there are fewer. Too few for K clusters are refused."""
    clusters = settings.clusters
    if clusters < 2:
        raise UserError(f"{clusters} cluster is no clustering: ask for at least 2")
    if images < clusters:
        way_out = f"ask for at most {images // 2}" if images >= 4 else "give more images"
        raise UserError(f"{images} {'image' if images == 1 else 'images'} cannot make {clusters} clusters: {way_out}")
    batch = min(settings.batch or images, images)
    batch -= batch % processes.count
    if batch < clusters:
        raise UserError(
            f"a batch of {batch} images cannot label {clusters} clusters: use a batch of at least {clusters}, "
            f"better {min(images, 10 * clusters)}"
        )
    return batch


class Components(NamedTuple):
    """An affine map of features: (features - mean) @ basis, of unit variance on average over the components."""

    mean: Tensor  # (D,)
    basis: Tensor  # (D, R)
    length: float  # of the features on average

    def of(self, views: Views) -> Views:
        """The same views, projected and held in memory, with a bank of the plain features brought to one length."""
        return Views(
            self._table(views.plain),
            np.stack([self._table(view) for view in views.weak]),
            np.stack([self._table(view) for view in views.strong]),
            views.space,
            self._table(views.plain, one_length=True),
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

    def _table(self, table: NDArray[np.floating], *, one_length: bool = False) -> NDArray[np.float32]:
        projected = np.empty((len(table), self.basis.shape[1]), dtype=np.float32)
        offset = -(self.mean.double() @ self.basis.double()).float()  # (R,)
        for part in _chunks(len(table)):
            features = torch.from_numpy(np.array(table[part], dtype=np.float32))
            if one_length:
                features = self.length * F.normalize(features, dim=1)
            torch.addmm(offset, features, self.basis, out=torch.from_numpy(projected[part]))
        return projected


def principal_components(features: NDArray[np.floating], components: int, *, seed: int) -> Components:
    """The directions in which the plain features (N, D) vary most, at most as many as there are.

    Only directions of features count here, as in the prototypes' cosines: all are brought to their average length.
    """
    randomness = generator(seed, "heads", "components")
    drawn = torch.randperm(len(features), generator=randomness)[:ENOUGH].sort().values
    some = torch.from_numpy(np.array(features[drawn.numpy()], dtype=np.float32))
    length = float(some.norm(dim=1).mean())
    some = length * F.normalize(some, dim=1)
    mean = some.mean(dim=0)
    variances, directions = _spectrum(some - mean, min(components, *some.shape), randomness)
    # Signs are the solver's whim; the largest entry of each direction is made positive.
    directions = directions * directions.gather(0, directions.abs().argmax(dim=0, keepdim=True)).sign()
    spread = variances.clamp(min=0).mean().sqrt()
    scale = 1.0 / spread if spread > 0 else spread + 1.0  # constant features stay as they are: zero
    return Components(mean, (directions * scale).float(), length)


def _spectrum(centered: Tensor, kept: int, randomness: torch.Generator) -> tuple[Tensor, Tensor]:
    """The `kept` largest variances, falling, and their directions as columns: (n, D) -> (R,), (D, R)."""
    images, width = centered.shape
    if min(images, width) <= kept + MORE:
        _, singular, directions = torch.linalg.svd(centered.double(), full_matrices=False)
        return singular[:kept].square() / images, directions[:kept].T
    # Subspace iteration: matrix products, where solving for all D directions would take most of a second.
    covariance = (centered.T @ centered).double() / images
    directions = torch.randn(width, kept + MORE, dtype=torch.float64, generator=randomness)
    caught = 0.0
    for _ in range(ROUNDS):
        directions = torch.linalg.qr(covariance @ directions).Q  # (D, R + more)
        variances, turn = torch.linalg.eigh(directions.T @ covariance @ directions)  # rising
        before, caught = caught, float(variances[-kept:].sum())
        if caught - before <= SETTLED * caught:
            break
    return variances.flip(dims=[0])[:kept], (directions @ turn.flip(dims=[1]))[:, :kept]


def _chunks(images: int) -> Iterator[slice]:
    for start in range(0, images, CHUNK):
        yield slice(start, start + CHUNK)
