"""Worker threads. torch, NumPy, Pillow and ONNX Runtime release the global interpreter lock while they compute.

Results must not depend on the order of computation. With a single torch thread, everything runs in the calling thread.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

# Each worker needs memory for a batch, so if there are more cores than this, each worker uses several.
MAX_WORKERS = 4


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one torch thread inside the block. For small tensors more are slower, especially on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def parallel_map(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """`function(item)` for every item, in order, computed by several workers that share torch's threads.

    A network that is spread over all cores waits for the slowest core after every layer, and all other work (reading
    pixels, making views) leaves all cores but one idle.
    """
    threads = torch.get_num_threads()
    workers = worker_count(threads)
    if workers == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="parallel_map") as pool:
        _share_threads(pool, workers, threads // workers, threads)
        pending: deque[Future[Result]] = deque()
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > workers:  # one item waits in the queue, so that no worker is idle
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def prefetch(items: Iterable[Item]) -> Iterator[Item]:
    """The items (pixels, views), in order. While one is in use, the next is prepared in the background."""
    threads = torch.get_num_threads()
    if threads == 1:
        yield from items
        return
    iterator, end = iter(items), object()
    with ThreadPoolExecutor(1, thread_name_prefix="prefetch") as pool:
        _share_threads(pool, 1, 1, threads)
        upcoming = pool.submit(next, iterator, end)
        while (item := upcoming.result()) is not end:
            upcoming = pool.submit(next, iterator, end)
            yield item  # type: ignore[misc]  # not the end


def worker_count(threads: int) -> int:
    """The largest number of workers that divides the threads: 4 for 8 threads, 3 for 6, 1 for 7."""
    return next(workers for workers in range(MAX_WORKERS, 0, -1) if threads % workers == 0)


def _share_threads(pool: ThreadPoolExecutor, workers: int, each: int, threads: int) -> None:
    """Start the workers with `each` torch threads; the calling thread keeps `threads`.

    torch has this number per thread. The first call of `get_num_threads` in a thread initializes it and would overwrite
    an earlier setting. A new thread inherits the number that was set last, so the caller's number is restored at the
    end.
    """
    all_started = Barrier(workers)

    def start() -> None:
        torch.get_num_threads()
        torch.set_num_threads(each)
        all_started.wait()  # otherwise one worker might start twice and another never

    for started in [pool.submit(start) for _ in range(workers)]:
        started.result()
    torch.set_num_threads(threads)
