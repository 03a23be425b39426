"""parallel_map gives the results of map, in the same order, on no more threads than torch may use."""

import threading
from collections.abc import Callable, Iterator

import pytest
import torch

from spice.engine.parallel import parallel_map, worker_count


@pytest.fixture(params=[2, 6])
def threads(request: pytest.FixtureRequest, set_threads: Callable[[int], None]) -> int:
    set_threads(request.param)
    return int(request.param)


@pytest.fixture
def one_thread(set_threads: Callable[[int], None]) -> None:
    set_threads(1)


def test_results_are_in_the_order_of_the_items_even_if_the_first_takes_longest(threads: int) -> None:
    others_done = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert others_done.wait(timeout=30.0)  # it would wait forever if the second did not run in parallel
        elif item == 1:
            others_done.set()
        return item * item

    assert list(parallel_map(work, range(20))) == [item * item for item in range(20)]
    assert torch.get_num_threads() == threads


def test_workers_share_torchs_threads_and_other_threads_keep_theirs(threads: int) -> None:
    workers = worker_count(threads)
    everyone = threading.Barrier(workers)

    def work(_: int) -> tuple[int, int]:
        everyone.wait(timeout=30.0)  # no worker takes two items while another takes none
        return threading.get_ident(), torch.get_num_threads()

    found = list(parallel_map(work, range(workers)))
    assert len({worker for worker, _ in found}) == workers
    assert [share for _, share in found] == [threads // workers] * workers
    assert torch.get_num_threads() == threads
    fresh: list[int] = []
    other = threading.Thread(target=lambda: fresh.append(torch.get_num_threads()))
    other.start()
    other.join()
    assert fresh == [threads]


@pytest.mark.parametrize(("threads", "workers"), [(1, 1), (2, 2), (4, 4), (6, 3), (7, 1), (8, 4), (10, 2)])
def test_workers_divide_the_threads_evenly(threads: int, workers: int) -> None:
    assert worker_count(threads) == workers


def test_items_are_read_only_shortly_before_they_are_needed(threads: int) -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    results = parallel_map(lambda item: item, items())
    next(results)
    assert len(taken) == worker_count(threads) + 1


@pytest.mark.usefixtures("one_thread")
def test_with_one_torch_thread_everything_runs_in_the_calling_thread() -> None:
    assert set(parallel_map(lambda _: threading.get_ident(), range(3))) == {threading.get_ident()}


@pytest.mark.usefixtures("threads")
def test_an_error_is_raised_in_order_and_unchanged() -> None:
    def work(item: int) -> int:
        if item == 1:
            raise KeyError("no image 1")
        return item

    results = parallel_map(work, range(10))
    assert next(results) == 0
    with pytest.raises(KeyError, match="no image 1"):
        next(results)
    assert _workers() == []


@pytest.mark.usefixtures("threads")
def test_stopping_early_leaves_no_thread_behind() -> None:
    results = parallel_map(lambda item: item, range(100))
    next(results)
    results.close()  # type: ignore[attr-defined]  # a generator
    assert _workers() == []


def _workers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("parallel_map")]
