"""Probabilities over clusters, in the layout that a CPU is fast in. Shapes: H heads, M images, K clusters.

Where a shape is (..., K, M), clusters before images, numbers lie in memory like that: torch then works on many images
at a time. Marks are numbers, 1 or 0: bools are several times slower to make, to count, and to multiply with.
"""

import torch
from torch import Tensor


def cluster_probs(logits: Tensor) -> Tensor:
    """softmax over the last dimension, (..., M, K) -> (..., M, K).

    On a CPU torch computes it over a last dimension of less than 16, or no multiple of it, number by number; with
    images last instead, many images at a time: ten times faster for K = 10, copies included.
    """
    if logits.ndim < 2:  # one image: nothing to lay out
        return logits.softmax(dim=-1)
    return logits.transpose(-2, -1).contiguous().softmax(dim=-2).transpose(-2, -1)


def likeliest(values: Tensor) -> Tensor:
    """Mark every image's largest value, of equal ones the first: (..., K, M) -> (..., K, M)."""
    marks = torch.empty_like(values, dtype=torch.float32)
    torch.eq(values, values.amax(dim=-2, keepdim=True), out=marks)
    count = marks.sum(dim=-1).sum(dim=-1, dtype=torch.float64)  # by cluster first: a float32 counts to 16 million
    if (count != values.shape[-1]).any():  # several are the largest: their order costs ten times as much
        marks.zero_().scatter_(-2, values.max(dim=-2, keepdim=True).indices, 1.0)
    return marks


def marked(marks: Tensor) -> Tensor:
    """The cluster of every image, of which one is marked: (..., K, M) -> (..., M)."""
    numbers = torch.arange(marks.shape[-2], dtype=marks.dtype, device=marks.device)
    return (numbers @ marks).long()
