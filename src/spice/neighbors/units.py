"""Features as unit vectors, so that cosine similarity is a matrix product.

A network that ends in a ReLU can return zeros for a blank page, or for images far smaller than those it was trained
on. Such features have no direction. These images resemble each other and nothing else, so they all get the same
direction, which no other image has: all features equal.

Shapes: N images, D feature width.
"""

import torch
from torch import Tensor

CHUNK = 16_384  # images at a time


def refuse_unusable(features: Tensor, *, name: str = "features") -> None:
    """Require a table of finite numbers."""
    if features.ndim != 2 or features.shape[1] == 0:
        raise ValueError(f"{name} must be (images, width), got shape {tuple(features.shape)}")
    parts = torch.split(features, CHUNK)
    bad = torch.cat([(~_largest(part).isfinite()).squeeze(dim=1) for part in parts]).nonzero().squeeze(dim=1)
    if len(bad):
        others = f" and {len(bad) - 1:,} more" if len(bad) > 1 else ""
        raise ValueError(
            f"{name} contain NaN or infinite values in row {bad[0].item():,}{others}: encode these images again"
        )


def unit_rows(features: Tensor) -> Tensor:
    """Each row divided by its norm, in float32: (N, D) -> (N, D). Rows of zeros are treated as rows of ones."""
    rows = features.detach().float()  # (N, D)
    largest = _largest(rows)
    blank = largest == 0  # (N, 1)
    if blank.any():
        rows, largest = torch.where(blank, 1.0, rows), torch.where(blank, 1.0, largest)
    # Divided by the largest entry first: squares of very large or small entries would overflow or vanish in float32.
    scaled = rows / largest
    return scaled.div_(torch.linalg.vector_norm(scaled, dim=1, keepdim=True))


def _largest(rows: Tensor) -> Tensor:
    """The largest absolute value of each row: (N, 1). NaN propagates."""
    found: Tensor = torch.linalg.vector_norm(rows.detach().float(), ord=torch.inf, dim=1, keepdim=True)
    return found
