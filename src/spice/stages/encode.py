"""Features of plain images (not augmented), and the predictions of a head, batch by batch.

Shapes: Q images, D feature width, K clusters.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spice.augment import Plain, Recipe
from spice.data.images import Images, InColor
from spice.engine.device import to_device
from spice.engine.parallel import parallel_map
from spice.errors import UserError
from spice.models.encoders import Encoder
from spice.models.heads import Head
from spice.progress import Progress, silent
from spice.settings import AugmentSettings

# All callers use the same batch size, because it may change the last bit of a matrix product.
BATCH = 64
# On a CPU, the images of a batch are read, normalized and encoded a few at a time: small buffers are reused, but 40 MB
# for a whole batch would be allocated anew each time.
AT_ONCE = 16


def encode_plain(
    encoder: Encoder,
    images: Images,
    *,
    count: int | None = None,
    distinct: NDArray[np.int64] | None = None,
    progress: Progress = silent,
) -> Tensor:
    """Features of the first `count` plain images (None: of all): (Q, D).

    Args:
        distinct: (U,) positions of the distinct images. Each is followed by its exact copies, which get its features.
            None: all images differ.
    """
    total, colored = len(images) if count is None else count, InColor(images, encoder.channels)
    plain = Plain(AugmentSettings(), size=encoder.size, normalization=encoder.normalization)
    features = torch.empty(total, encoder.features)
    firsts = torch.arange(total) if distinct is None else torch.from_numpy(distinct)
    ends = torch.cat([firsts[1:], torch.tensor([total])])
    parts = list(zip(torch.split(firsts, BATCH), torch.split(ends, BATCH), strict=True)) if total else []

    def encoded(part: tuple[Tensor, Tensor]) -> Tensor:
        return encode_batch(encoder, plain, colored, part[0]).cpu()

    for (first, end), batch in zip(parts, parallel_map(encoded, parts), strict=True):
        features[first[0] : end[-1]] = batch.repeat_interleave(end - first, dim=0)
        progress("encoding images", int(end[-1]), total)
    return features


def encode_batch(encoder: Encoder, plain: Recipe, images: Images, positions: Tensor) -> Tensor:
    """Features (B, D) of the plain images at `positions` (B,)."""
    device = device_of(encoder)
    few = torch.split(positions, AT_ONCE) if device.type == "cpu" else (positions,)
    unused = torch.Generator()  # plain images are not random
    features = torch.cat([encoder.encode(plain(to_device(images.take(part), device), unused)) for part in few])
    if not features.isfinite().all():
        raise UserError(
            f"encoder {encoder.name} returns NaN or infinite features (damaged weights?); use another --encoder"
        )
    return features


def device_of(encoder: Encoder) -> torch.device:
    """The device of the encoder: its `device`, or the CPU if it has none."""
    return torch.device(getattr(encoder, "device", "cpu"))


@torch.no_grad()
def probabilities(head: Head, features: Tensor) -> Tensor:
    """The probabilities that the head predicts: (Q, D) -> (Q, K)."""
    return torch.cat([head(part).softmax(dim=1) for part in torch.split(features, BATCH)])
