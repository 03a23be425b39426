"""Features as unit vectors, so that cosine similarity is a matrix product; what has no direction is refused.

Shapes: N images, D feature width.
"""

import torch
from torch import Tensor


def unit_rows(features: Tensor, *, name: str = "features") -> Tensor:
    """Each row divided by its length, in float32: (N, D) -> (N, D)."""
    if features.ndim != 2 or features.shape[1] == 0:
        raise ValueError(f"{name} must be (images, width), found shape {tuple(features.shape)}")
    rows = features.detach().float()  # (N, D)
    lowest, highest = rows.aminmax(dim=1, keepdim=True)  # (N, 1); NaN comes through
    largest = torch.maximum(highest, -lowest)  # (N, 1)
    _refuse(~largest.isfinite(), f"{name} hold a NaN or infinite value in {{}}: encode these images again")
    _refuse(largest == 0, f"{name} are all zeros in {{}}: such an image has no direction and no nearest neighbors")
    # By the largest entry first: the square of a very large or very small one would leave float32.
    scaled = rows / largest
    return scaled.div_(torch.linalg.vector_norm(scaled, dim=1, keepdim=True))


def _refuse(bad: Tensor, words: str) -> None:
    rows = bad.squeeze(dim=1).nonzero().squeeze(dim=1)  # (number of bad rows,)
    if len(rows):
        others = f" and {len(rows) - 1:,} more" if len(rows) > 1 else ""
        raise ValueError(words.format(f"row {rows[0].item():,}{others}"))
