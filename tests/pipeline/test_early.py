"""What is computed beside the heads is what would be computed later."""

import threading

from spice.pipeline.early import Early


def test_a_value_is_computed_once_in_the_background() -> None:
    early, where = Early(), list[str]()

    def compute() -> int:
        where.append(threading.current_thread().name)
        return 7

    early.start("seven", compute)
    assert early.take("seven", compute) == 7
    assert early.take("seven", compute) == 7  # not started: computed here
    assert [name.startswith("early") for name in where] == [True, False]


def test_a_failure_in_the_background_is_not_the_last_word() -> None:
    early = Early()
    early.start("one", lambda: 1 // 0)
    assert early.take("one", lambda: 1) == 1
