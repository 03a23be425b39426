"""Features as unit vectors, so that cosine similarity is a matrix product.

A network that ends in a ReLU can be silent on a blank page, or on images far smaller than it was made for. The features
of such images are all zero and have no direction. They are like one another and unlike the rest, so they all get the
one direction that no other image has: all features equal.

Shapes: N images, D feature width.
"""

import warnings

import torch
from torch import Tensor

from spice.errors import SpiceWarning


class BlankImagesWarning(SpiceWarning):
    """The encoder's features of some images are all zero."""


def warn_of_blank(features: Tensor) -> None:
    """Warn if the encoder sees nothing in some images."""
    count = int((features.count_nonzero(dim=1) == 0).sum())
    if count:
        warnings.warn(
            f"the encoder sees nothing in {count:,} of {len(features):,} images, which are grouped together; "
            "try a larger --size or another encoder",
            BlankImagesWarning,
            stacklevel=2,
        )


def unit_rows(features: Tensor, *, name: str = "features") -> Tensor:
    """Each row divided by its length, in float32: (N, D) -> (N, D). Rows of zeros get the direction of ones."""
    if features.ndim != 2 or features.shape[1] == 0:
        raise ValueError(f"{name} must be (images, width), got shape {tuple(features.shape)}")
    rows = features.detach().float()  # (N, D)
    lowest, highest = rows.aminmax(dim=1, keepdim=True)  # (N, 1); NaN propagates
    largest = torch.maximum(highest, -lowest)  # (N, 1)
    bad = (~largest.isfinite()).squeeze(dim=1).nonzero().squeeze(dim=1)  # (number of bad rows,)
    if len(bad):
        others = f" and {len(bad) - 1:,} more" if len(bad) > 1 else ""
        raise ValueError(
            f"{name} contain NaN or infinite values in row {bad[0].item():,}{others}: encode these images again"
        )
    blank = largest == 0  # (N, 1)
    if blank.any():
        rows, largest = torch.where(blank, 1.0, rows), torch.where(blank, 1.0, largest)
    # By the largest entry first: the square of a very large or very small one would overflow or vanish in float32.
    scaled = rows / largest
    return scaled.div_(torch.linalg.vector_norm(scaled, dim=1, keepdim=True))
