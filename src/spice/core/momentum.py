"""The moving average and the queue of the first stage (paper III-A); stage 3 averages its model the same way.

Shapes: Q keys in the queue, B new keys, D projection width.
"""

import torch
from torch import Tensor, nn

from spice.core.checks import check_finite, shape


@torch.no_grad()
def ema_update_(average: nn.Module, current: nn.Module, *, momentum: float) -> None:
    """theta' <- momentum * theta' + (1 - momentum) * theta, for every parameter of `average`.

    Buffers (batch-norm statistics) are not parameters: they stay as they are.
    """
    if not 0 <= momentum <= 1:
        raise ValueError(f"the momentum must lie in 0..1, got {momentum}")
    averages, currents = dict(average.named_parameters()), dict(current.named_parameters())
    if _shapes(averages) != _shapes(currents):
        raise ValueError("the average and the current model must have the same parameters, of the same shapes")
    for name, value in averages.items():
        value.lerp_(currents[name].to(value), 1 - momentum)


@torch.no_grad()
def enqueue_(queue: Tensor, keys: Tensor, position: int) -> int:
    """Write keys (B, D) over the oldest of the queue (Q, D), from `position` on and around; return the next position.

    Of more keys than the queue holds, the last Q stay.
    """
    if queue.ndim != 2 or len(queue) == 0:
        raise ValueError(f"the queue is empty: it must hold at least one key, got shape {shape(queue)}")
    check_finite("keys", keys)
    if keys.shape[1] != queue.shape[1]:
        raise ValueError(f"the keys' width {keys.shape[1]} does not match the queue's {queue.shape[1]}")
    size = len(queue)
    if not 0 <= position < size:
        raise ValueError(f"the position must lie in 0..{size - 1}, got {position}")
    places = (position + torch.arange(len(keys), device=queue.device)) % size
    queue[places[-size:]] = keys[-size:].to(queue)
    return (position + len(keys)) % size


def _shapes(parameters: dict[str, nn.Parameter]) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in parameters.items()}
