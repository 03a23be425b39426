"""Exponential moving average and key queue (paper III-A). Stage 3 averages its network the same way.

Shapes: Q keys in the queue, B new keys, D projection width.
"""

import torch
from torch import Tensor, nn


@torch.no_grad()
def ema_update_(average: nn.Module, current: nn.Module, *, momentum: float) -> None:
    """theta' <- momentum * theta' + (1 - momentum) * theta, for every parameter of `average`.

    Buffers (batch-norm statistics) are left unchanged.
    """
    if not 0 <= momentum <= 1:
        raise ValueError(f"the momentum must lie in 0..1, got {momentum}")
    for old, new in zip(average.parameters(), current.parameters(), strict=True):
        old.lerp_(new.to(old), 1 - momentum)


@torch.no_grad()
def enqueue_(queue: Tensor, keys: Tensor, position: int) -> int:
    """Write keys (B, D) into a ring buffer (Q, D), starting at `position`; return the next position.

    The oldest keys are overwritten. If there are more keys than the queue holds, the last Q are kept.
    """
    size = len(queue)
    places = (position + torch.arange(len(keys), device=queue.device)) % size
    queue[places[-size:]] = keys[-size:].to(queue)
    return (position + len(keys)) % size
