"""Schedules at points with a known value."""

import pytest
import torch

from spice.engine import schedules


def test_cosine_goes_from_one_through_a_half_to_zero() -> None:
    assert schedules.cosine(0, 100) == 1.0
    assert schedules.cosine(50, 100) == pytest.approx(0.5)
    assert schedules.cosine(25, 100) == pytest.approx((1 + 2**-0.5) / 2)
    assert schedules.cosine(100, 100) == pytest.approx(0.0)


def test_warmup_is_linear_and_ends_at_one() -> None:
    rates = [schedules.warm_cosine(step, 100, warmup=4) for step in range(6)]
    assert rates[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert rates[5] < 1.0
    assert schedules.warm_cosine(100, 100, warmup=4) == pytest.approx(0.0)
    assert schedules.warm_cosine(3, 100, warmup=0) == schedules.cosine(3, 100)


def test_fixmatch_ends_at_about_a_fifth() -> None:
    assert schedules.seven_sixteenths_cosine(0, 8) == 1.0
    assert schedules.seven_sixteenths_cosine(8, 8) == pytest.approx(0.19509, abs=1e-5)


def test_every_parameter_group_gets_the_learning_rate() -> None:
    groups = [{"params": [torch.nn.Parameter(torch.zeros(1))]} for _ in range(2)]
    optimizer = torch.optim.SGD(groups, lr=1.0)
    schedules.set_learning_rate_(optimizer, 0.25)
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.25]
