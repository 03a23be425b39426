"""Softmax over clusters is a softmax, whatever the layout it is computed in."""

import pytest
import torch

from spice.core.probs import cluster_probs


@pytest.mark.parametrize("shape", [(7, 3), (2, 7, 10), (2, 7, 16), (5,)])
def test_it_is_torchs_softmax_with_torchs_gradient(shape: tuple[int, ...]) -> None:
    logits = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    weight = torch.rand(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    ours, torchs = cluster_probs(logits), logits.softmax(dim=-1)
    torch.testing.assert_close(ours, torchs)
    (mine,) = torch.autograd.grad((ours * weight).sum(), logits)
    (theirs,) = torch.autograd.grad((torchs * weight).sum(), logits)
    torch.testing.assert_close(mine, theirs)
