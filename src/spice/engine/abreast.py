"""The same work on several inputs at once: each on one core, instead of one after the other on all of them.

A network spread over cores waits for the slowest of them after every layer, and whatever is done between two networks
(taking pixels, making views) leaves all cores but one idle.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

import torch

from spice.engine.threads import keep_to

Item = TypeVar("Item")
Result = TypeVar("Result")

# Each worker holds what one batch needs on its way through a network: more workers than this share the cores in groups.
MOST_WORKERS = 4


def abreast(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """`work(item)` of every item, in order, several at a time. A result must not depend on when it is computed.

    torch, NumPy, Pillow and ONNX Runtime do their work outside Python's lock. The workers share torch's threads among
    them. Where there is one worker, results are computed when asked for, on all threads.
    """
    threads = torch.get_num_threads()
    workers = workers_of(threads)
    if workers == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="abreast") as pool:
        _share_threads(pool, workers, threads)
        under_way: deque[Future[Result]] = deque()
        for item in items:
            under_way.append(pool.submit(work, item))
            if len(under_way) > workers:  # one waits, so that no worker ever does
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()


def workers_of(threads: int) -> int:
    """As many as may be with no thread left over: 4 of 8 threads, 3 of 6, 1 of 7."""
    return next(workers for workers in range(MOST_WORKERS, 0, -1) if threads % workers == 0)


def _share_threads(pool: ThreadPoolExecutor, workers: int, threads: int) -> None:
    everyone = Barrier(workers)

    def settle() -> None:
        keep_to(threads // workers)
        everyone.wait()  # or one worker would settle twice, and another never

    for settled in [pool.submit(settle) for _ in range(workers)]:
        settled.result()
    keep_to(threads)
