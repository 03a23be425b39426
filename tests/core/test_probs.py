"""Softmax and argmax over clusters are torch's, whatever the memory layout."""

import pytest
import torch

from spice.core.probs import cluster_probs, one_hot_argmax, one_hot_labels


@pytest.mark.parametrize("shape", [(7, 3), (2, 7, 10), (2, 7, 16)])
def test_it_is_torchs_softmax_with_torchs_gradient(shape: tuple[int, ...]) -> None:
    logits = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    weight = torch.rand(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    ours, torchs = cluster_probs(logits), logits.softmax(dim=-1)
    torch.testing.assert_close(ours, torchs)
    (mine,) = torch.autograd.grad((ours * weight).sum(), logits)
    (theirs,) = torch.autograd.grad((torchs * weight).sum(), logits)
    torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("levels", [1, 2, 10_000], ids=["all equal", "many equal", "few or none equal"])
def test_every_image_is_marked_once_at_the_first_of_its_largest_values(levels: int, dtype: torch.dtype) -> None:
    values = torch.randint(levels, (3, 5, 400), generator=torch.Generator().manual_seed(0)).to(dtype)
    marks = one_hot_argmax(values)
    first = [[row.tolist().index(max(row)) for row in head.T] for head in values]
    assert one_hot_labels(marks).tolist() == first
    assert marks.sum(dim=1).eq(1).all()
    assert set(marks.flatten().tolist()) <= {0.0, 1.0}


def test_values_that_lie_images_first_give_the_same_labels() -> None:
    values = torch.randn(400, 5, generator=torch.Generator().manual_seed(0))
    assert one_hot_labels(one_hot_argmax(values.T)).equal(values.argmax(dim=1))
