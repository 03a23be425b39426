"""Randomness that torch draws from its global state, made a function of (seed, purpose) as everywhere else."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from spice.data.batches import generator


@contextmanager
def seeded(seed: int, *purpose: str | int) -> Iterator[None]:
    """Inside, torch's global generator is at (seed, purpose); outside, it is as if nothing had been drawn.

    For `nn` layers, whose initialization takes no generator.
    """
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(generator(seed, *purpose).get_state())
        yield
