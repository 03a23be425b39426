"""Prepare the input of the next step (pixels, views) while the network is busy with the current one."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from spice.engine.parallel import set_threads

Item = TypeVar("Item")


def prefetch(items: Iterable[Item]) -> Iterator[Item]:
    """The items, in order, each prepared in a background thread while the one before it is in use.

    torch, NumPy and Pillow release Python's lock while they work. An item must not depend on when it is prepared.
    If torch may use one thread only, items are prepared on demand.
    """
    threads = torch.get_num_threads()
    if threads == 1:
        yield from items
        return
    iterator = iter(items)
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="prefetch") as background:
        background.submit(set_threads, 1).result()
        set_threads(threads)
        upcoming = background.submit(next, iterator, end)
        while (item := upcoming.result()) is not end:
            upcoming = background.submit(next, iterator, end)
            yield item  # type: ignore[misc]  # not the end
