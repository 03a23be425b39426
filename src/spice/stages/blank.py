"""Images in which the encoder sees nothing at all: their features are zero, and zero has no direction.

A network that ends in a ReLU can be silent on an empty page, or on images far smaller than it was made for. Such images
are like one another and unlike the rest, so they all get the one direction that no others have: all features alike.

Shapes: N images, D feature width.
"""

import warnings

import torch
from torch import Tensor

from spice.errors import SpiceWarning


class BlankImagesWarning(SpiceWarning):
    """The encoder's features of some images are all zero."""


def with_direction(features: Tensor) -> Tensor:
    """The features (N, D), and ones in place of rows that are all zero: for whatever compares directions."""
    blank = _blank(features)
    return torch.where(blank.unsqueeze(dim=1), 1.0, features) if blank.any() else features


def warn_of_blank(features: Tensor) -> None:
    """Name images in which the encoder sees nothing."""
    count = int(_blank(features).sum())
    if count:
        warnings.warn(
            f"the encoder sees nothing at all in {count:,} of {len(features):,} images: they are grouped together; "
            "try a larger --size, or another encoder",
            BlankImagesWarning,
            stacklevel=2,
        )


def _blank(features: Tensor) -> Tensor:
    return features.count_nonzero(dim=1) == 0  # (N,)
