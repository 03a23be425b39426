"""The next step's input made while this step runs: views and pixels, while the network is busy with the last ones."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from spice.engine.threads import keep_to

Item = TypeVar("Item")


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The items, in order, each made in a background thread while the one before it is used.

    torch, NumPy and Pillow do their work outside Python's lock. What an item is must not depend on when it is made.
    Where torch may use one thread only, there is no second one, and items are made when they are asked for.
    """
    threads = torch.get_num_threads()
    if threads == 1:
        yield from items
        return
    iterator = iter(items)
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as background:
        background.submit(keep_to, 1).result()
        keep_to(threads)
        coming = background.submit(next, iterator, end)
        while (item := coming.result()) is not end:
            coming = background.submit(next, iterator, end)
            yield item  # type: ignore[misc]  # not the end
