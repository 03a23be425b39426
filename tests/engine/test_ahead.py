"""Inputs made ahead are the inputs made in time, one step earlier."""

import threading
from collections.abc import Callable, Iterator

import pytest
import torch

from spice.augment import Contrastive
from spice.engine.ahead import ahead
from spice.randomness import generator
from spice.settings import IMAGENET, AugmentSettings


@pytest.fixture
def two_threads(set_threads: Callable[[int], None]) -> None:
    set_threads(2)


@pytest.mark.usefixtures("two_threads")
def test_the_next_item_is_made_while_this_one_is_used() -> None:
    made = [threading.Event() for _ in range(4)]

    def items() -> Iterator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number

    seen = []
    for number in ahead(items()):
        assert number == 3 or made[number + 1].wait(timeout=30.0)  # it would wait forever for one made in time
        assert not any(event.is_set() for event in made[number + 2 :])  # and no further ahead than that
        seen.append(number)
    assert seen == [0, 1, 2, 3]


@pytest.mark.usefixtures("two_threads")
def test_the_background_has_one_thread_and_everyone_else_as_many_as_before() -> None:
    assert list(ahead(torch.get_num_threads() for _ in range(3))) == [1, 1, 1]
    assert torch.get_num_threads() == 2
    fresh: list[int] = []
    other = threading.Thread(target=lambda: fresh.append(torch.get_num_threads()))
    other.start()
    other.join()
    assert fresh == [2]


def test_where_torch_has_one_thread_nothing_runs_beside_it(set_threads: Callable[[int], None]) -> None:
    set_threads(1)
    assert set(ahead(threading.get_ident() for _ in range(3))) == {threading.get_ident()}


@pytest.mark.usefixtures("two_threads")
def test_an_error_comes_in_its_turn_and_as_it_is() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise KeyError("no image 2")

    inputs = ahead(items())
    assert next(inputs) == 1
    with pytest.raises(KeyError, match="no image 2"):
        next(inputs)


@pytest.mark.usefixtures("two_threads")
def test_whoever_stops_early_leaves_no_thread_behind() -> None:
    inputs = ahead(iter(range(100)))
    next(inputs)
    inputs.close()  # type: ignore[attr-defined]  # a generator
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ahead")]


@pytest.mark.usefixtures("two_threads")
def test_views_made_ahead_are_the_views_made_in_time() -> None:
    images = torch.randint(0, 256, (16, 3, 32, 32), dtype=torch.uint8, generator=generator(0, "images"))
    recipe = Contrastive(AugmentSettings(), 32, IMAGENET)
    in_time = [recipe(images, generator(0, "views", step)) for step in range(4)]
    for expected, view in zip(in_time, ahead(recipe(images, generator(0, "views", s)) for s in range(4)), strict=True):
        assert torch.equal(view, expected)
        (torch.nn.Conv2d(3, 1, 3)(view)).sum().backward()  # a network can learn from it
