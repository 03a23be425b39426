"""Probabilities over clusters, in the memory layout that is fast on a CPU.

Tensors of shape (..., K, M), clusters before images, are contiguous, so that torch vectorizes over images. One-hot
marks are floats, 1 or 0: bools are several times slower to compute, to sum and to multiply.

Shapes: H heads, M images, K clusters.
"""

import torch
from torch import Tensor


def cluster_probs(logits: Tensor) -> Tensor:
    """Softmax over the last dimension: (..., M, K) -> (..., M, K).

    On a CPU, torch does not vectorize it if the size of the last dimension is not a multiple of 16. With images last it
    does: ten times faster for K = 10, including the copies.
    """
    return logits.transpose(-2, -1).contiguous().softmax(dim=-2).transpose(-2, -1)


def one_hot_argmax(values: Tensor) -> Tensor:
    """1 at the first largest value of every image, 0 elsewhere: (..., K, M) -> (..., K, M)."""
    marks = torch.empty_like(values, dtype=torch.float32)
    torch.eq(values, values.amax(dim=-2, keepdim=True), out=marks)
    count = marks.sum(dim=-1).sum(dim=-1, dtype=torch.float64)  # by cluster first: float32 is exact up to 16 million
    if (count != values.shape[-1]).any():  # ties: finding the first costs ten times as much
        marks.zero_().scatter_(-2, values.max(dim=-2, keepdim=True).indices, 1.0)
    return marks


def one_hot_labels(marks: Tensor) -> Tensor:
    """The marked cluster of every image: (..., K, M) -> (..., M)."""
    numbers = torch.arange(marks.shape[-2], dtype=marks.dtype, device=marks.device)
    return (numbers @ marks).long()
