"""Probabilities over clusters, in the memory layout that is fast on a CPU. Shapes: H heads, M images, K clusters.

Tensors of shape (..., K, M), clusters before images, also lie in memory like this: torch then works on many images
at a time. One-hot marks are floats, 1 or 0: bools are several times slower to make, to count, and to multiply with.
"""

import torch
from torch import Tensor


def cluster_probs(logits: Tensor) -> Tensor:
    """softmax over the last dimension, (..., M, K) -> (..., M, K).

    On a CPU torch computes it number by number where the last dimension is below 16 or no multiple of it. With images
    last it takes many images at a time: ten times faster for K = 10, copies included.
    """
    if logits.ndim < 2:  # a single image: no layout to choose
        return logits.softmax(dim=-1)
    return logits.transpose(-2, -1).contiguous().softmax(dim=-2).transpose(-2, -1)


def one_hot_argmax(values: Tensor) -> Tensor:
    """Mark every image's largest value, of equal ones the first: (..., K, M) -> (..., K, M)."""
    marks = torch.empty_like(values, dtype=torch.float32)
    torch.eq(values, values.amax(dim=-2, keepdim=True), out=marks)
    count = marks.sum(dim=-1).sum(dim=-1, dtype=torch.float64)  # by cluster first: a float32 counts to 16 million
    if (count != values.shape[-1]).any():  # some image has several largest: finding the first costs ten times as much
        marks.zero_().scatter_(-2, values.max(dim=-2, keepdim=True).indices, 1.0)
    return marks


def one_hot_labels(marks: Tensor) -> Tensor:
    """The marked cluster of every image: (..., K, M) -> (..., M)."""
    numbers = torch.arange(marks.shape[-2], dtype=marks.dtype, device=marks.device)
    return (numbers @ marks).long()
