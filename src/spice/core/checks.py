"""What the equations cannot take is refused here, in words. Each check reads its tensor once or twice, no more."""

import torch
from torch import Tensor

SUM_TOLERANCE = 0.01  # what bfloat16, the coarsest dtype in use, needs for probabilities to sum to 1


def check_finite(name: str, values: Tensor) -> None:
    """Refuse NaN and infinity, and anything that is not a table of floating-point numbers."""
    if not values.is_floating_point():
        raise ValueError(f"{name} must be floating-point numbers, got {values.dtype}")
    if values.ndim != 2 or values.numel() == 0:
        raise ValueError(f"{name} must be a table with at least one row and one column, got shape {shape(values)}")
    low, high = values.aminmax()  # both are NaN if any value is
    if not (low.isfinite() and high.isfinite()):
        bad = int((~values.isfinite()).any(dim=1).sum())
        raise ValueError(f"{name} hold NaN or infinite values in {bad} of {len(values)} rows")


def check_probs(probs: Tensor) -> None:
    """Refuse what is no distribution over clusters along the last dimension."""
    if not probs.is_floating_point() or probs.ndim < 2 or probs.numel() == 0:
        raise ValueError(f"probabilities must be floats (..., images, clusters), got {probs.dtype} {shape(probs)}")
    probs = probs.detach()  # a check is no part of what is learned
    least, most = (float(edge) for edge in probs.sum(dim=-1).aminmax())
    lowest = float(probs.amin())  # not aminmax, which would copy what lies clusters first
    off = max(1 - least, most - 1)
    if lowest >= 0 and off <= SUM_TOLERANCE:  # so written that NaN fails
        return
    highest = float(probs.amax())
    if not (lowest >= 0 and highest <= 1 + SUM_TOLERANCE):
        raise ValueError(f"probabilities must lie in 0..1, got {lowest:.4g} to {highest:.4g} (are these logits?)")
    raise ValueError(f"probabilities of an image must sum to 1, one sum is off by {off:.4g}")


def check_integers(name: str, values: Tensor, *, lowest: int, count: int) -> None:
    """Refuse what is no whole number in lowest..count-1, and no value at all."""
    if values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
        raise ValueError(f"{name} must be whole numbers, got {values.dtype}")
    if values.numel() == 0:
        raise ValueError(f"there are no {name}, got shape {shape(values)}")
    low, high = (int(edge) for edge in values.aminmax())
    if low < lowest or high >= count:
        raise ValueError(f"{name} must lie in {lowest}..{count - 1}, got {low}..{high}")


def check_threshold(threshold: float) -> None:
    """Refuse a threshold that no share or probability could be compared with."""
    if not 0 <= threshold <= 1:
        raise ValueError(f"the threshold must lie in 0..1, got {threshold}")


def check_temperature(temperature: float) -> None:
    """Refuse a temperature that is not above zero."""
    if not temperature > 0:
        raise ValueError(f"the temperature must be above 0, got {temperature}")


def shape(values: Tensor) -> str:
    """A tensor's shape as people write it: (3, 4)."""
    return str(tuple(values.shape))
