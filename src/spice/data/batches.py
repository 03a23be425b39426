"""Batches in random order: a function of (seed, stage, epoch), not of history.

So a resumed run sees the same batches, and several processes agree without communication.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from spice.engine.run import Run
from spice.randomness import generator


class Batch(NamedTuple):
    """One process's share of a batch."""

    number: int
    images: Tensor  # (B,) positions in the collection


def batches_of_training(count: int, size: int, run: Run, *, stage: str, epochs: int, first: int = 0) -> Iterator[Batch]:
    """This process's share of every batch of several epochs, numbered from the first epoch on.

    Args:
        first: the number of the batch to start from, where a stopped training resumes.
    """
    per_epoch = max(1, count // size)
    rank, processes = run.processes.rank, run.processes.count
    for epoch in range(first // per_epoch, epochs):
        for batch in batches(count, size, seed=run.seed, stage=stage, epoch=epoch, rank=rank, processes=processes):
            step = epoch * per_epoch + batch.number
            if step >= first:
                yield Batch(step, batch.images)


def batches(
    count: int, size: int, *, seed: int, stage: str, epoch: int, rank: int = 0, processes: int = 1
) -> Iterator[Batch]:
    """One epoch: `count` images in random order, in batches of `size` over all processes together.

    Process `rank` gets every `processes`-th image of each batch, so all processes see the same number of batches, and
    their shares differ by at most one image. An incomplete last batch is dropped, as in Algorithm 1 (floor(N / M)
    batches).
    """
    if size < 1 or not 0 <= rank < processes:
        raise ValueError(f"process {rank} of {processes} cannot have a share of batches of {size}")
    if count < size:
        raise ValueError(f"{count} images do not fill one batch of {size}: choose a smaller batch")
    order = torch.randperm(count, generator=generator(seed, stage, "order", epoch))
    for number in range(count // size):
        yield Batch(number, order[number * size : (number + 1) * size][rank::processes])
