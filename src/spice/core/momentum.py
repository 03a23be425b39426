"""The moving average and the queue of the first stage (paper III-A); stage 3 averages its model the same way.

Shapes: Q keys in the queue, B new keys, D projection width.
"""

import torch
from torch import Tensor, nn


@torch.no_grad()
def ema_update_(average: nn.Module, current: nn.Module, *, momentum: float) -> None:
    """theta' <- momentum * theta' + (1 - momentum) * theta, for every parameter of `average`.

    Buffers (batch-norm statistics) are not parameters: they stay as they are.
    """
    if not 0 <= momentum <= 1:
        raise ValueError(f"the momentum must lie in 0..1, got {momentum}")
    for old, new in zip(average.parameters(), current.parameters(), strict=True):
        old.lerp_(new.to(old), 1 - momentum)


@torch.no_grad()
def enqueue_(queue: Tensor, keys: Tensor, position: int) -> int:
    """Write keys (B, D) over the oldest of the queue (Q, D), from `position` on and around; return the next position.

    Of more keys than the queue holds, the last Q stay.
    """
    size = len(queue)
    places = (position + torch.arange(len(keys), device=queue.device)) % size
    queue[places[-size:]] = keys[-size:].to(queue)
    return (position + len(keys)) % size
