"""Features of images as they are, and a head's predictions for them, batch by batch.

Shapes: Q images, D feature width, K clusters.
"""

import torch
from torch import Tensor

from spice.augment import Plain
from spice.data.images import Images, InColor
from spice.engine.parallel import parallel_map
from spice.models.encoders import Encoder
from spice.models.heads import Head
from spice.progress import Progress, silent
from spice.settings import AugmentSettings

# The same batches for every caller: the size of a batch may change the last bit of a matrix product.
BATCH = 64


def encode_plain(encoder: Encoder, images: Images, *, count: int | None = None, progress: Progress = silent) -> Tensor:
    """Features of the first `count` images (None: of all), without augmentation: (Q, D)."""
    total, colored = len(images) if count is None else count, InColor(images, encoder.channels)
    plain = Plain(AugmentSettings(), size=encoder.size, normalization=encoder.normalization)
    features = torch.empty(total, encoder.features)

    def encoded(start: int) -> Tensor:
        return encoder.encode(plain(colored.take(torch.arange(start, min(start + BATCH, total))))).cpu()

    starts = range(0, total, BATCH)
    for start, batch in zip(starts, parallel_map(encoded, starts), strict=True):
        features[start : start + len(batch)] = batch
        progress("encoding images", start + len(batch), total)
    return features


@torch.no_grad()
def probabilities(head: Head, features: Tensor) -> Tensor:
    """(Q, D) -> (Q, K)."""
    return torch.cat([head(part).softmax(dim=1) for part in torch.split(features, BATCH)])
