"""How many images each cluster labels if the sizes of the groups are known (not in the paper).

It is unknown which cluster will become which group. So in every step the largest share goes to the cluster that is
currently the largest, the second largest share to the second largest cluster, and so on. By the rearrangement
inequality this minimizes both the squared difference and the KL divergence between sizes and shares, as the Hungarian
algorithm would.

Shapes: M images in a batch, K clusters, H heads.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

ROUNDING = 1e-6  # so that 100 * 0.29, a little less than 29 in floats, is 29


def quotas(images: int, shares: Sequence[float], *, ratio: float = 1.0) -> list[int]:
    """ratio * M * share for every share, rounded down, at least one, in descending order; M // K if all are equal."""
    if any(share <= 0 for share in shares) or abs(sum(shares) - 1) > 1e-4:
        raise ValueError(f"shares must be above 0 and sum to 1, got {tuple(shares)}")
    return sorted((max(1, int(ratio * images * share + ROUNDING)) for share in shares), reverse=True)


def by_size(descending: Sequence[float], probs: Tensor) -> Tensor:
    """K numbers, the largest for the cluster that is the largest now, and so on: probs (..., M, K) -> (..., K).

    A cluster's size is the sum of its probabilities; ties go to the first cluster.
    """
    if len(descending) != probs.shape[-1]:
        raise ValueError(f"need a share for each of {probs.shape[-1]} clusters, got {len(descending)}")
    order = probs.detach().float().sum(dim=-2).argsort(dim=-1, descending=True, stable=True)  # (..., K)
    values = torch.tensor(list(descending), device=probs.device)
    return torch.empty(order.shape, dtype=values.dtype, device=probs.device).scatter_(
        -1, order, values.expand_as(order)
    )
