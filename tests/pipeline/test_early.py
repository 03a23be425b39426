"""What is computed beside the heads is what would be computed later."""

import threading

import pytest

from spice.pipeline.early import EarlyResults


def test_a_value_is_computed_once_in_the_background() -> None:
    early, where = EarlyResults(), list[str]()

    def compute() -> int:
        where.append(threading.current_thread().name)
        return 7

    early.start("seven", compute)
    assert early.take("seven", compute) == 7
    assert early.take("seven", compute) == 7  # not started: computed here
    assert [name.startswith("early") for name in where] == [True, False]


def test_a_failure_in_the_background_is_raised_where_the_value_is_needed() -> None:
    early = EarlyResults()
    early.start("one", lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        early.take("one", lambda: 1)


def test_canceled_values_are_not_computed() -> None:
    early, go_on, computed = EarlyResults(), threading.Event(), list[int]()
    early.start("first", lambda: go_on.wait(10))
    early.start("second", lambda: computed.append(2))
    early.cancel()
    go_on.set()
    early.start("third", lambda: computed.append(3))
    early.take("third", lambda: None)
    assert computed == [3]
