"""Checks of what callers pass to the equations. Each reads its tensor once or twice, no more."""

import torch
from torch import Tensor

SUM_TOLERANCE = 0.01  # how far from 1 the sum of probabilities may be in bfloat16, the coarsest dtype in use


def check_finite(name: str, values: Tensor) -> None:
    """Require a table of finite floating-point numbers."""
    if not values.is_floating_point():
        raise ValueError(f"{name} must be floating-point numbers, got {values.dtype}")
    if values.ndim != 2 or values.numel() == 0:
        raise ValueError(f"{name} must be a table with at least one row and one column, got shape {shape(values)}")
    low, high = values.aminmax()  # both are NaN if any value is
    if not (low.isfinite() and high.isfinite()):
        bad = int((~values.isfinite()).any(dim=1).sum())
        raise ValueError(f"{name} hold NaN or infinite values in {bad} of {len(values)} rows")


def check_probs(probs: Tensor) -> None:
    """Require a distribution over clusters along the last dimension."""
    if not probs.is_floating_point() or probs.ndim < 2 or probs.numel() == 0:
        raise ValueError(f"probabilities must be floats (..., images, clusters), got {probs.dtype} {shape(probs)}")
    probs = probs.detach()  # checks need no gradient
    least, most = (float(edge) for edge in probs.sum(dim=-1).aminmax())
    lowest = float(probs.amin())  # not aminmax, which would copy a tensor that lies clusters first
    off = max(1 - least, most - 1)
    if lowest >= 0 and off <= SUM_TOLERANCE:  # written so that NaN fails
        return
    highest = float(probs.amax())
    if not (lowest >= 0 and highest <= 1 + SUM_TOLERANCE):
        raise ValueError(f"probabilities must lie in 0..1, got {lowest:.4g} to {highest:.4g} (are these logits?)")
    raise ValueError(f"probabilities of an image must sum to 1, one sum is off by {off:.4g}")


def check_batch(features: Tensor, probs: Tensor) -> None:
    """Require features (M, D) and probabilities (M, K) or (H, M, K) of the same images."""
    check_finite("features", features)
    check_probs(probs)
    if probs.ndim > 3:
        raise ValueError(f"probabilities must be (M, K) or (H, M, K), got {shape(probs)}")
    if len(features) != probs.shape[-2]:
        raise ValueError(f"features of {len(features)} images do not match probabilities of {probs.shape[-2]}")


def check_enough_images(probs: Tensor) -> None:
    """Require at least one image per cluster."""
    images, clusters = probs.shape[-2:]
    if images < clusters:
        raise ValueError(f"{images} images cannot label {clusters} clusters: use a batch of at least {clusters}")


def check_per_cluster(per_cluster: int, images: int) -> None:
    """Require a prototype to be the mean of at least one image, and of no more than there are."""
    if not 1 <= per_cluster <= images:
        raise ValueError(f"a prototype is the mean of 1 to {images} images of this batch, not of {per_cluster}")


def check_integers(name: str, values: Tensor, *, lowest: int, count: int) -> None:
    """Require at least one value, and whole numbers in lowest..count-1."""
    if values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
        raise ValueError(f"{name} must be whole numbers, got {values.dtype}")
    if values.numel() == 0:
        raise ValueError(f"there are no {name}, got shape {shape(values)}")
    low, high = (int(edge) for edge in values.aminmax())
    if low < lowest or high >= count:
        raise ValueError(f"{name} must lie in {lowest}..{count - 1}, got {low}..{high}")


def check_threshold(threshold: float) -> None:
    """Require a threshold in 0..1."""
    if not 0 <= threshold <= 1:
        raise ValueError(f"the threshold must lie in 0..1, got {threshold}")


def check_temperature(temperature: float) -> None:
    """Require a temperature above zero."""
    if not temperature > 0:
        raise ValueError(f"the temperature must be above 0, got {temperature}")


def shape(values: Tensor) -> str:
    """A tensor's shape for messages: (3, 4)."""
    return str(tuple(values.shape))
