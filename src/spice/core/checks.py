"""Input checks for mistakes that would silently give wrong results."""

import torch
from torch import Tensor

SUM_TOLERANCE = 0.01  # probabilities in bfloat16, the coarsest dtype in use, sum to 1 within this


def check_probs(probs: Tensor) -> None:
    """Require a distribution over clusters along the last dimension."""
    probs = probs.detach()
    lowest, off = float(probs.amin()), float((probs.sum(dim=-1) - 1).abs().amax())
    if not (lowest >= 0 and off <= SUM_TOLERANCE):  # written so that NaN fails
        raise ValueError(
            "probabilities must be at least 0 and sum to 1 for each image (are these logits?): "
            f"the lowest is {lowest:.4g}, one sum is off by {off:.4g}"
        )


def check_batch(features: Tensor, probs: Tensor, *, per_cluster: int = 1) -> None:
    """Require finite features (M, D) and probabilities (M, K) or (H, M, K) of the same images, and enough images."""
    check_probs(probs)
    if features.ndim != 2 or probs.ndim not in (2, 3) or len(features) != probs.shape[-2]:
        shapes = f"{tuple(features.shape)} and {tuple(probs.shape)}"
        raise ValueError(f"features (M, D) and probabilities (M, K) or (H, M, K) do not match: {shapes}")
    if not all(edge.isfinite() for edge in features.aminmax()):  # both are NaN if any value is
        bad = int((~features.isfinite()).any(dim=1).sum())
        raise ValueError(f"features hold NaN or infinite values in {bad} of {len(features)} rows")
    images, clusters = probs.shape[-2:]
    if images < clusters:
        raise ValueError(f"{images} images cannot label {clusters} clusters: use a batch of at least {clusters}")
    if not 1 <= per_cluster <= images:
        raise ValueError(f"a prototype is the mean of 1 to {images} images of this batch, not of {per_cluster}")


def check_integers(name: str, values: Tensor, *, lowest: int, below: int) -> None:
    """Require whole numbers in lowest..below-1, at least one."""
    if values.is_floating_point() or values.dtype == torch.bool:
        raise ValueError(f"{name} must be whole numbers, got {values.dtype}")
    low, high = (int(edge) for edge in values.aminmax())
    if low < lowest or high >= below:
        raise ValueError(f"{name} must lie in {lowest}..{below - 1}, got {low}..{high}")


def check_threshold(threshold: float) -> None:
    """Require a share, not a percentage."""
    if not 0 <= threshold <= 1:
        raise ValueError(f"the threshold must lie in 0..1, got {threshold}")
