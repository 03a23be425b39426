"""Lines of progress, and the time left."""

import logging

import pytest

from spice.progress import LogProgress, duration


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("spice.progress.time.monotonic", lambda: now[0])
    return now


def test_the_time_left_counts_from_where_this_run_and_this_task_began(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="spice")
    progress = LogProgress(every_seconds=0.0)
    progress("encode", 500, 1000)  # resumed
    clock[0] += 10
    progress("encode", 600, 1000)
    assert caplog.messages[-1] == "encoding: 600 of 1,000, 10.0/s, 40 s left"
    clock[0] += 1000
    progress("encode", 100, 2000)  # of other images
    clock[0] += 10
    progress("encode", 300, 2000, {"loss": 0.5})
    assert caplog.messages[-1] == "encoding: 300 of 2,000, 20.0/s, 1 min 25 s left, loss 0.5"


def test_a_rate_needs_some_time_to_be_measured(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="spice")
    progress = LogProgress(every_seconds=0.0)
    progress("thumbnails", 1024, 1500)
    clock[0] += 1e-4
    progress("thumbnails", 1500, 1500)
    assert caplog.messages[-1] == "thumbnails: 1,500 of 1,500"


def test_lines_are_few_but_the_last_is_logged(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="spice")
    progress = LogProgress(every_seconds=5.0)
    for done in range(1, 101):
        clock[0] += 0.1
        progress("heads", done, 100)
    assert [message.split(",")[0] for message in caplog.messages] == [
        "training heads: 1 of 100",
        "training heads: 51 of 100",
        "training heads: 100 of 100",
    ]


def test_slow_work_is_announced_and_its_rate_is_not_zero(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="spice")
    progress = LogProgress()
    progress("scan", 196, 196)
    progress("features", 0, 1000)  # at once, though a line was just logged
    clock[0] += 30
    progress("features", 1, 1000)
    assert caplog.messages[1:] == [
        "training the encoder: 0 of 1,000",
        "training the encoder: 1 of 1,000, 8 h 19 min left",
    ]


@pytest.mark.parametrize(("seconds", "words"), [(59.4, "59 s"), (75, "1 min 15 s"), (3700, "1 h 01 min")])
def test_a_duration_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words
