"""Attention maps: cosine similarity of a feature map with the prototype of its cluster (paper IV, visualization).

Shapes: N images, B in a batch, D feature width, K clusters, h x w positions of the feature map.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from spice.augment import Plain
from spice.data.images import Images, InColor
from spice.errors import UserError
from spice.models.encoders import Encoder
from spice.settings import AugmentSettings
from spice.stages.labels import final_prototypes

_BATCH = 16


def attention(maps: Tensor, centers: Tensor) -> Tensor:
    """Cosine of a center (B, D) with a feature map (B, D, h, w) for each image, scaled to 0..1: (B, h, w)."""
    cosine = F.cosine_similarity(maps, centers[:, :, None, None], dim=1)  # (B, h, w)
    low, high = cosine.amin(dim=(1, 2), keepdim=True), cosine.amax(dim=(1, 2), keepdim=True)
    # If all cosines are equal, the map is zero, not 0 / 0.
    return (cosine - low) / (high - low).clamp_min(1e-12)


def attention_maps(
    rows: NDArray[np.int64], *, images: Images, encoder: Encoder, features: Tensor, probs: Tensor
) -> Iterator[tuple[int, Tensor]]:
    """Each of `rows` with its attention map (h, w); nothing if the encoder has no matching feature map."""
    centers = final_prototypes(features, probs)  # (K, D)
    cluster = probs.argmax(dim=1)  # (N,)
    plain, pixels = Plain(AugmentSettings(), encoder.size, encoder.normalization), InColor(images, encoder.channels)
    for part in torch.split(torch.from_numpy(rows), _BATCH):
        try:
            maps = encoder.feature_map(plain(pixels.take(part))).float().cpu()  # (B, D, h, w)
        except UserError:
            return
        if maps.shape[1] != centers.shape[1]:  # features are more than the mean of the feature map
            return
        yield from zip(part.tolist(), attention(maps, centers[cluster[part]]), strict=True)
