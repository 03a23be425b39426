"""How far to even the features of a trained network, told without labels.

Wang and Isola (2020): features are good for what comes later where two views of an image lie close (alignment) and
images lie far apart (uniformity). Evening moves images apart, and from some point on views of one image just as much.
"""

import logging

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.models.evened import Evened
from spice.stages.features.health import alignment, uniformity

log = logging.getLogger("spice")

SHARES = [number / 20 for number in range(21)]


@torch.no_grad()
def found_share(network: Evened, plain: Tensor, first: Tensor, second: Tensor) -> float:
    """The share of the way that makes alignment + uniformity least.

    Args:
        network: Its layer is computed anew for every share.
        plain: (N, D) features of plain images before that layer, to compute it from.
        first: (n, D) of a random view of each of some images, as in training.
        second: (n, D) of another view of each.
    """
    sums: dict[float, float] = {}
    for share in SHARES:
        network.even_(plain, share)
        one, other = (F.normalize(network.evening(features), dim=1) for features in (first, second))
        sums[share] = alignment(one, other) + uniformity(one)
    best = min(SHARES, key=lambda share: sums[share])
    log.info("features: evened by %g, alignment + uniformity %.2f (%.2f without)", best, sums[best], sums[0.0])
    return best
