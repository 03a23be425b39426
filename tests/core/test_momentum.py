"""The moving average and the queue of stage 1 (III-A)."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from spice.core import ema_update_, enqueue_


def network(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


@pytest.mark.parametrize("momentum", [0.0, 0.25, 0.999, 1.0])
def test_the_average_moves_by_its_equation_and_nothing_else_moves(momentum: float) -> None:
    average, current = network(0), network(1)
    current[1].running_mean.add_(1)  # type: ignore[operator]
    before = {name: value.clone() for name, value in average.state_dict().items()}
    learned = {name: value.clone() for name, value in current.state_dict().items()}
    ema_update_(average, current, momentum=momentum)
    parameters = dict(average.named_parameters())
    for name, value in average.state_dict().items():
        expected = momentum * before[name] + (1 - momentum) * learned[name] if name in parameters else before[name]
        torch.testing.assert_close(value, expected)
    for name, value in current.state_dict().items():
        assert torch.equal(value, learned[name])


def test_the_average_takes_no_gradient_and_crosses_precisions() -> None:
    average, current = nn.Linear(3, 4), nn.Linear(3, 4).double()
    start = average.weight.detach().clone()
    ema_update_(average, current, momentum=0.5)
    assert average.weight.grad_fn is None
    assert average.weight.dtype == torch.float32
    torch.testing.assert_close(average.weight.detach(), (start + current.weight.detach().float()) / 2)


def test_models_with_other_parameters_are_refused() -> None:
    for other in (nn.Sequential(nn.Linear(3, 4)), nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))):
        for average, current in ((network(0), other), (other, network(0))):
            with pytest.raises((ValueError, RuntimeError), match=r"shorter|longer|size of tensor"):
                ema_update_(average, current, momentum=0.9)


@pytest.mark.parametrize("momentum", [-0.1, 1.1, math.nan])
def test_a_momentum_out_of_range_is_refused_in_words(momentum: float) -> None:
    with pytest.raises(ValueError, match=rf"the momentum must lie in 0..1, got {momentum}"):
        ema_update_(network(0), network(1), momentum=momentum)


def rows(start: int, count: int) -> Tensor:
    return torch.arange(start, start + count, dtype=torch.float32).unsqueeze(dim=1).repeat(1, 2)


@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 9), sizes=st.lists(st.integers(1, 25), min_size=1, max_size=8), start=st.integers(0, 8))
def test_the_queue_holds_the_last_keys_whatever_the_batch_sizes(size: int, sizes: list[int], start: int) -> None:
    queue, position = rows(-size, size), start % size
    ring = queue[:, 0].tolist()
    place, key = position, 0
    for batch in sizes:
        position = enqueue_(queue, rows(key, batch), position)
        for value in range(key, key + batch):  # one by one: over the oldest, then on
            ring[place] = float(value)
            place = (place + 1) % size
        key += batch
        assert position == place
        assert queue[:, 0].tolist() == queue[:, 1].tolist() == ring


def test_the_queue_keeps_its_dtype_and_takes_no_gradient() -> None:
    queue = torch.zeros(4, 2)
    keys = torch.ones(3, 2, dtype=torch.float64, requires_grad=True)
    assert enqueue_(queue, keys, 2) == 1
    assert queue.dtype == torch.float32
    assert not queue.requires_grad
    assert queue[:, 0].tolist() == [1, 0, 1, 1]
