"""Every image once an epoch, in an order that only seed, stage and epoch decide, whoever asks and whenever."""

from itertools import chain

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spice.data.batches import batches, batches_of_training
from spice.engine.processes import Processes
from spice.engine.run import Run
from spice.randomness import generator


def drawn(count: int, size: int, **options: int) -> list[list[int]]:
    arguments = {"seed": 0, "epoch": 0, **options}
    return [batch.images.tolist() for batch in batches(count, size, stage="heads", **arguments)]


@settings(deadline=None)
@given(number=st.integers(1, 5), size=st.integers(1, 64), processes=st.integers(1, 5), epoch=st.integers(0, 3))
def test_no_image_is_lost_or_doubled_over_any_number_of_processes(
    number: int, size: int, processes: int, epoch: int
) -> None:
    alone = drawn(number * size, size, epoch=epoch)
    assert sorted(chain(*alone)) == list(range(number * size))
    shares = [drawn(number * size, size, epoch=epoch, rank=rank, processes=processes) for rank in range(processes)]
    for place, batch in enumerate(alone):
        parts = [share[place] for share in shares]  # all processes have as many batches
        assert sorted(chain(*parts)) == sorted(batch)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_whole_batches_are_as_many_as_algorithm_1_says() -> None:
    assert [len(batch) for batch in drawn(1050, 100)] == [100] * 10
    with pytest.raises(ValueError, match="50 images do not fill one batch of 100"):
        drawn(50, 100)


def test_the_order_depends_on_seed_stage_and_epoch_and_nothing_else() -> None:
    first = drawn(100, 10)
    torch.manual_seed(123)
    torch.rand(7)
    assert drawn(100, 10) == first
    others = [drawn(100, 10, seed=1), drawn(100, 10, epoch=1)]
    others.append([batch.images.tolist() for batch in batches(100, 10, seed=0, stage="joint", epoch=0)])
    assert all(other != first for other in others)


def test_a_training_is_its_epochs_one_after_another() -> None:
    run = Run(3, processes=Processes(1, 2))
    found = list(batches_of_training(105, 10, run, stage="heads", epochs=3))
    expected = [
        batch.images
        for epoch in range(3)
        for batch in batches(105, 10, seed=3, stage="heads", epoch=epoch, rank=1, processes=2)
    ]
    assert [batch.number for batch in found] == list(range(30))
    assert all(torch.equal(batch.images, images) for batch, images in zip(found, expected, strict=True))


@pytest.mark.parametrize("first", [0, 6, 10, 29, 30])
def test_a_training_resumes_at_the_batch_where_it_stopped(first: int) -> None:
    whole = list(batches_of_training(105, 10, Run(3), stage="heads", epochs=3))
    resumed = list(batches_of_training(105, 10, Run(3), stage="heads", epochs=3, first=first))
    assert [batch.number for batch in resumed] == list(range(first, 30))
    assert all(torch.equal(a.images, b.images) for a, b in zip(whole[first:], resumed, strict=True))


def test_a_share_that_cannot_be_is_refused() -> None:
    for options in ({"rank": 2, "processes": 2}, {"rank": -1}, {"processes": 0}):
        with pytest.raises(ValueError, match="cannot have a share"):
            drawn(10, 5, **options)


def test_generators_of_different_purposes_are_unrelated() -> None:
    purposes = [("views", 1, 2), ("views", 12), ("views", 1, 2, 0), ("order", 1, 2)]
    draws = [torch.rand(8, generator=generator(0, *purpose)) for purpose in purposes]
    again = torch.rand(8, generator=generator(0, "views", 1, 2))
    assert torch.equal(draws[0], again)
    assert not any(torch.equal(a, b) for i, a in enumerate(draws) for b in draws[i + 1 :])
