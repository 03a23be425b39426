"""Partial whitening of the features of a trained network, by an amount that can be chosen without labels.

Features are good for downstream tasks if two views of an image are close together (alignment) and different images are
far apart (uniformity; Wang and Isola 2020). Whitening spreads images apart and, beyond some amount, also the views of
one image.
"""

import logging

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.augment import Contrastive, Plain, Recipe
from spice.data.images import Images
from spice.engine.device import module_to_device, to_device
from spice.engine.run import Run
from spice.models.backbone import Backbone, eval_mode
from spice.models.networks import PartialWhitening
from spice.settings import FeatureSettings, Normalization
from spice.stages.features.health import alignment, uniformity

log = logging.getLogger("spice")

AMOUNTS = [number / 20 for number in range(21)]


@torch.no_grad()
def whiten(
    network: Backbone, images: Images, settings: FeatureSettings, normalization: Normalization, run: Run
) -> PartialWhitening:
    """The network followed by a whitening layer, fitted to at most ten thousand images."""
    positions = sample_positions(images, 10_000, run)

    def encode(recipe: Recipe, positions: Tensor, name: str) -> Tensor:
        # "evened" is an old name. It stays, because it is part of the seed.
        generator = run.generator("features", "evened", name)
        parts = torch.split(positions, 500)
        return torch.cat(
            [network(recipe(to_device(images.take(part), run.device), generator)) for part in parts]
        )  # (n, D)

    result = module_to_device(PartialWhitening(network), run.device)
    with eval_mode(network):
        plain = encode(Plain(settings.augment, images.size, normalization), positions, "plain")
        if settings.whitening == "auto":
            recipe = Contrastive(settings.augment, settings.view_size or images.size, normalization)
            first, second = (encode(recipe, positions[:2000], name) for name in ("first", "second"))
            amount = choose_amount(result, plain, first, second)
        else:
            amount = settings.whitening
    result.fit_(plain, amount)
    return result


@torch.no_grad()
def choose_amount(network: PartialWhitening, plain: Tensor, first: Tensor, second: Tensor) -> float:
    """The amount of whitening that minimizes alignment + uniformity.

    Args:
        network: its whitening layer is fitted anew for every amount.
        plain: (N, D) features of plain images before that layer, to fit it.
        first: (n, D) features of a random view of some images, as in training.
        second: (n, D) features of another view of these images.
    """
    sums: dict[float, float] = {}
    for amount in AMOUNTS:
        network.fit_(plain, amount)
        one, other = (F.normalize(network.linear(features), dim=1) for features in (first, second))
        sums[amount] = alignment(one, other) + uniformity(one)
    best = min(AMOUNTS, key=lambda amount: sums[amount])
    log.info(
        "features: selected whitening %g, with alignment + uniformity %.2f (%.2f without whitening)",
        best,
        sums[best],
        sums[0.0],
    )
    return best


def sample_positions(images: Images, count: int, run: Run) -> Tensor:
    """The positions of at most `count` random images."""
    return torch.randperm(len(images), generator=run.generator("features", "some"))[:count]
