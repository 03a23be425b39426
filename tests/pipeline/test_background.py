"""What is computed beside the heads is what would be computed later."""

import threading

import pytest

from spice.pipeline.background import BackgroundResults


def test_a_value_is_computed_once_in_the_background() -> None:
    background, where = BackgroundResults(), list[str]()

    def compute() -> int:
        where.append(threading.current_thread().name)
        return 7

    background.start("seven", compute)
    assert background.take("seven", compute) == 7
    assert background.take("seven", compute) == 7  # not started: computed here
    assert [name.startswith("background") for name in where] == [True, False]


def test_a_failure_in_the_background_is_raised_where_the_value_is_needed() -> None:
    background = BackgroundResults()
    background.start("one", lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        background.take("one", lambda: 1)


def test_canceled_values_are_not_computed() -> None:
    background, go_on, computed = BackgroundResults(), threading.Event(), list[int]()
    background.start("first", lambda: go_on.wait(10))
    background.start("second", lambda: computed.append(2))
    background.cancel()
    go_on.set()
    background.start("third", lambda: computed.append(3))
    background.take("third", lambda: None)
    assert computed == [3]
