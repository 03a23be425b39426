"""Prefetched items are the same items, prepared one step ahead."""

import threading
from collections.abc import Callable, Iterator

import pytest
import torch

from spice.augment import Contrastive
from spice.engine.parallel import prefetch
from spice.randomness import generator
from spice.settings import IMAGENET, AugmentSettings


@pytest.fixture
def two_threads(set_threads: Callable[[int], None]) -> None:
    set_threads(2)


@pytest.mark.usefixtures("two_threads")
def test_the_next_item_is_prepared_while_this_one_is_in_use() -> None:
    made = [threading.Event() for _ in range(4)]

    def items() -> Iterator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number

    seen = []
    for number in prefetch(items()):
        assert number == 3 or made[number + 1].wait(timeout=30.0)  # it would wait forever if items were made on demand
        assert not any(event.is_set() for event in made[number + 2 :])  # but not more than one step ahead
        seen.append(number)
    assert seen == [0, 1, 2, 3]


@pytest.mark.usefixtures("two_threads")
def test_the_background_uses_one_torch_thread_and_other_threads_keep_theirs() -> None:
    assert list(prefetch(torch.get_num_threads() for _ in range(3))) == [1, 1, 1]
    assert torch.get_num_threads() == 2
    fresh: list[int] = []
    other = threading.Thread(target=lambda: fresh.append(torch.get_num_threads()))
    other.start()
    other.join()
    assert fresh == [2]


def test_with_one_torch_thread_items_are_made_in_the_calling_thread(set_threads: Callable[[int], None]) -> None:
    set_threads(1)
    assert set(prefetch(threading.get_ident() for _ in range(3))) == {threading.get_ident()}


@pytest.mark.usefixtures("two_threads")
def test_an_error_is_raised_in_order_and_unchanged() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise KeyError("no image 2")

    inputs = prefetch(items())
    assert next(inputs) == 1
    with pytest.raises(KeyError, match="no image 2"):
        next(inputs)


@pytest.mark.usefixtures("two_threads")
def test_stopping_early_leaves_no_thread_behind() -> None:
    inputs = prefetch(iter(range(100)))
    next(inputs)
    inputs.close()  # type: ignore[attr-defined]  # a generator
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]


@pytest.mark.usefixtures("two_threads")
def test_prefetched_views_equal_views_made_on_demand() -> None:
    images = torch.randint(0, 256, (16, 3, 32, 32), dtype=torch.uint8, generator=generator(0, "images"))
    recipe = Contrastive(AugmentSettings(), 32, IMAGENET)
    on_demand = [recipe(images, generator(0, "views", step)) for step in range(4)]
    for expected, view in zip(
        on_demand, prefetch(recipe(images, generator(0, "views", s)) for s in range(4)), strict=True
    ):
        assert torch.equal(view, expected)
        (torch.nn.Conv2d(3, 1, 3)(view)).sum().backward()  # a network can learn from it
