"""The same function on several inputs at once, each on its own core.

One network spread over all cores waits for the slowest core after every layer, and whatever happens between two
networks (reading pixels, making views) leaves all cores but one idle.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

# Each worker needs memory for one batch on its way through a network, so more cores than this work in groups.
MAX_WORKERS = 4


def parallel_map(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """`function(item)` for every item, in order, several at a time. A result must not depend on when it is computed.

    torch, NumPy, Pillow and ONNX Runtime release Python's lock while they work. The workers share torch's threads
    among them. With a single worker, results are computed on demand, on all threads.
    """
    threads = torch.get_num_threads()
    workers = worker_count(threads)
    if workers == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="parallel_map") as pool:
        _share_threads(pool, workers, threads)
        pending: deque[Future[Result]] = deque()
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > workers:  # one item waits in the queue, so that no worker is ever idle
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def worker_count(threads: int) -> int:
    """The largest number of workers that divides the threads: 4 for 8 threads, 3 for 6, 1 for 7."""
    return next(workers for workers in range(MAX_WORKERS, 0, -1) if threads % workers == 0)


def set_threads(threads: int) -> None:
    """Set how many threads torch uses in the calling thread, where each thread has its own number.

    The first call of `get_num_threads` fixes that number and would undo an earlier setting. A new thread inherits the
    number that was set last, in whichever thread: after starting workers, set the caller's own number again.
    """
    torch.get_num_threads()
    torch.set_num_threads(threads)


def _share_threads(pool: ThreadPoolExecutor, workers: int, threads: int) -> None:
    all_started = Barrier(workers)

    def start() -> None:
        set_threads(threads // workers)
        all_started.wait()  # otherwise one worker might start twice and another never

    for started in [pool.submit(start) for _ in range(workers)]:
        started.result()
    set_threads(threads)
