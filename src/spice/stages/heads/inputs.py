"""The inputs of the heads: the batch size, and features (the paper) or their principal components.

A head on R components equals a head on D features whose first layer has rank R: `on_features` converts it.

Shapes: N images, V views, D feature width, R components.
"""

import math
from functools import partial
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
from spice.stages.view_files import Kind, MakeRows
from spice.stages.views import Views

# Components are computed from at most this many images, drawn at random.
MAX_IMAGES = 20_000
# Subspace iteration: extra directions, the relative gain in variance below which it stops, the maximum of rounds.
EXTRA, TOLERANCE, MAX_ROUNDS = 32, 1e-4, 50
CHUNK = 8_192


def epochs_for(images: int, batch: int, settings: HeadSettings) -> int:
    """The number of epochs: that of the settings, or more if a small collection would get fewer than `least_steps`."""
    return max(settings.epochs, math.ceil(settings.least_steps / (images // batch)))


def batch_size(images: int, settings: HeadSettings, processes: Processes = ALONE) -> int:
    """M for this many images: that of the settings, or all images if there are fewer. UserError if too few for K."""
    clusters = settings.clusters
    if clusters < 2:
        raise UserError(f"need at least 2 groups, got {clusters}")
    if images < 4:
        raise UserError(f"need at least 4 images (2 per group), got {images}")
    if clusters > images // 2:
        raise UserError(
            f"need at least 2 images per group: {images} images allow at most {images // 2} groups, got {clusters}"
        )
    batch = min(settings.batch or images, images)
    batch -= batch % processes.count
    if batch < clusters:
        raise UserError(
            f"a batch of {batch} images is too small for {clusters} groups; use at least {clusters}, "
            f"preferably {min(images, 10 * clusters)}"
        )
    if settings.sub_batch is not None and settings.sub_batch < processes.count:
        raise UserError(f"heads.sub_batch is {settings.sub_batch}; {processes.count} processes need at least that many")
    return batch


class Components(NamedTuple):
    """An affine map of features, (features - mean) @ basis, with unit variance on average over the components."""

    mean: Tensor  # (D,)
    basis: Tensor  # (D, R)
    length: float  # mean length of the features

    def project(self, views: Views) -> Views:
        """The components of all views, in memory. The bank is the plain features, scaled to one length first."""
        return Views(
            self.transform(views.plain),
            np.stack([self.transform(view) for view in views.weak]),
            np.stack([self.transform(view) for view in views.strong]),
            self.transform(views.plain, one_length=True),
            None if views.fresh is None else partial(self._fresh, views.fresh),
        )

    def on_features(self, head: Head) -> Head:
        """The head on features that is equal to `head` on their components."""
        whole = Head(len(self.mean), head.clusters, hidden=head.hidden.out_features)
        with torch.no_grad():
            weight = head.hidden.weight.cpu().double() @ self.basis.double().T  # (W, D)
            whole.hidden.weight.copy_(weight)
            whole.hidden.bias.copy_(head.hidden.bias.cpu() - weight @ self.mean.double())
            whole.out.load_state_dict(head.out.state_dict())
        return whole

    def _fresh(self, make_rows: MakeRows, kind: Kind, positions: Tensor, generator: torch.Generator) -> Tensor:
        return torch.from_numpy(self.transform(make_rows(kind, positions, generator).numpy()))

    def transform(self, features: NDArray[np.floating], *, one_length: bool = False) -> NDArray[np.float32]:
        """The components (N, R) of features (N, D). With `one_length`, features are first scaled to that length."""
        components = np.empty((len(features), self.basis.shape[1]), dtype=np.float32)
        offset = -(self.mean.double() @ self.basis.double()).float()  # (R,)
        for start in range(0, len(features), CHUNK):
            part = slice(start, start + CHUNK)
            rows = torch.from_numpy(np.array(features[part], dtype=np.float32))
            if one_length:
                rows = self.length * F.normalize(rows, dim=1)
            torch.addmm(offset, rows, self.basis, out=torch.from_numpy(components[part]))
        return components


def principal_components(features: NDArray[np.floating], components: int, *, seed: int) -> Components:
    """The directions in which the plain features (N, D) vary most; fewer than `components` if there are no more.

    All features are scaled to their mean length first: as in the prototypes' cosines, only directions count.
    """
    random = generator(seed, "heads", "components")
    drawn = torch.randperm(len(features), generator=random)[:MAX_IMAGES].sort().values
    sample = torch.from_numpy(np.array(features[drawn.numpy()], dtype=np.float32))
    length = float(sample.norm(dim=1).mean())
    sample = length * F.normalize(sample, dim=1)
    mean = sample.mean(dim=0)
    variances, directions = _spectrum(sample - mean, min(components, *sample.shape), random)
    # The signs are arbitrary: make the largest entry of each direction positive.
    directions = directions * directions.gather(0, directions.abs().argmax(dim=0, keepdim=True)).sign()
    spread = variances.clamp(min=0).mean().sqrt()
    scale = 1.0 / spread if spread > 0 else spread + 1.0  # the components of constant features are zero
    return Components(mean, (directions * scale).float(), length)


def _spectrum(centered: Tensor, kept: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """The `kept` largest variances, largest first, and their directions as columns: (n, D) -> (R,), (D, R)."""
    images, width = centered.shape
    if min(images, width) <= kept + EXTRA:
        _, singular, directions = torch.linalg.svd(centered.double(), full_matrices=False)
        return singular[:kept].square() / images, directions[:kept].T
    # Subspace iteration needs matrix products only. An eigendecomposition for all D directions is slower.
    covariance = (centered.T @ centered).double() / images
    directions = torch.randn(width, kept + EXTRA, dtype=torch.float64, generator=random)
    explained = 0.0
    for _ in range(MAX_ROUNDS):
        directions = torch.linalg.qr(covariance @ directions).Q  # (D, R + EXTRA)
        variances, rotation = torch.linalg.eigh(directions.T @ covariance @ directions)  # ascending
        before, explained = explained, float(variances[-kept:].sum())
        if explained - before <= TOLERANCE * explained:
            break
    return variances.flip(dims=[0])[:kept], (directions @ rotation.flip(dims=[1]))[:, :kept]
