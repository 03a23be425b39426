"""H heads as one module are H heads."""

import pytest
import torch
from torch import nn

from spice.models.heads import Head, Heads


def test_batched_heads_compute_what_each_would_alone() -> None:
    torch.manual_seed(0)
    heads, features = Heads(3, 6, 4, hidden=5), torch.randn(7, 6)
    together = heads(features)
    assert together.shape == (3, 7, 4)
    for number in range(3):
        torch.testing.assert_close(heads.head(number)(features), together[number])


def test_heads_may_see_different_images() -> None:
    torch.manual_seed(0)
    heads, features = Heads(3, 6, 4), torch.randn(3, 7, 6)
    together = heads(features)
    for number in range(3):
        torch.testing.assert_close(heads.head(number)(features[number]), together[number])


def test_a_head_learns_as_if_it_were_alone() -> None:
    torch.manual_seed(0)
    heads, features = Heads(2, 6, 4), torch.randn(7, 6)
    alone = heads.head(1)
    heads(features).square().mean(dim=(1, 2)).sum().backward()
    alone(features).square().mean().backward()
    assert heads.hidden.grad is not None
    torch.testing.assert_close(heads.hidden.grad[1, :-1].T, alone.hidden.weight.grad)
    torch.testing.assert_close(heads.hidden.grad[1, -1], alone.hidden.bias.grad)
    assert heads.out_bias.grad is not None
    torch.testing.assert_close(heads.out_bias.grad[1, 0], alone.out.bias.grad)


def test_heads_start_as_linear_layers_do() -> None:
    torch.manual_seed(0)
    heads, layer = Heads(50, 64, 10), nn.Linear(64, 64)
    assert heads.hidden.abs().max() <= 1 / 8 < heads.hidden.abs().max() * 1.01
    torch.testing.assert_close(heads.hidden.std(), layer.weight.std(), rtol=0.05, atol=0.0)


def test_the_papers_head_is_as_wide_inside_as_its_features() -> None:
    assert Head(12, 3).hidden.out_features == 12
    assert Heads(2, 12, 3).hidden.shape == (2, 12 + 1, 12)


def test_a_head_comes_back_from_its_parameters_whatever_its_widths() -> None:
    head, features = Head(6, 4, hidden=9), torch.randn(5, 6)
    again = Head.from_state_dict(head.state_dict())
    assert torch.equal(again(features), head(features))


def test_a_part_of_the_heads_is_those_heads() -> None:
    heads, features = Heads(5, 6, 4), torch.randn(7, 6)
    torch.testing.assert_close(heads.part(slice(1, 3))(features), heads(features)[1:3])


@pytest.mark.parametrize("at_once", [1, 2, 10])
@pytest.mark.parametrize("shared", [True, False])
def test_heads_and_features_learn_as_autograd_alone_would_teach_them(
    at_once: int, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spice.models.heads._CACHED_ACTIVATIONS", at_once * 7 * 8)
    torch.manual_seed(0)
    heads = Heads(5, 6, 4, hidden=8).double()
    features = torch.randn(7, 6) if shared else torch.randn(5, 7, 6)
    features = features.double().requires_grad_()
    weights = (features, *heads.parameters())
    target = torch.randn(5, 7, 4, dtype=torch.float64)
    found = torch.autograd.grad((heads(features) * target).sum(), weights)
    hidden = (features @ heads.hidden[:, :-1] + heads.hidden[:, -1:]).relu()
    expected = torch.autograd.grad(((hidden @ heads.out_weight + heads.out_bias) * target).sum(), weights)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
