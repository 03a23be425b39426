"""Consistency pseudo-labels: what a sure prediction says about its own image (paper III-C).

Shapes: B images, K clusters.
"""

import torch
from torch import Tensor

from spice.core.checks import check_probs, check_threshold

IGNORE = -1  # the label of an image that losses skip


def consistency_labels(probs: Tensor, *, threshold: float = 0.95) -> Tensor:
    """argmax(p_j) where max(p_j) >= threshold, IGNORE elsewhere: (..., B, K) -> (..., B)."""
    check_probs(probs)
    check_threshold(threshold)
    confident = probs.amax(dim=-1) >= threshold
    return torch.where(confident, probs.argmax(dim=-1), IGNORE)
