"""Randomness as a function of (seed, purpose), never of history.

So a resumed run draws exactly what it would have drawn, and several processes agree without communication.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    """A generator whose stream depends on `seed` and `purpose` alone: generator(0, "views", epoch, batch)."""
    key = hashlib.blake2b(repr((seed, *purpose)).encode(), digest_size=8).digest()
    # manual_seed takes 63 bits; torch's generator for the CPU uses 32 of them.
    return torch.Generator().manual_seed(int.from_bytes(key, "little") >> 1)


@contextmanager
def seeded(seed: int, *purpose: str | int) -> Iterator[None]:
    """Inside, torch's global generator is at (seed, purpose); outside, it is as if nothing had been drawn.

    For `nn` layers, whose initialization takes no generator.
    """
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(generator(seed, *purpose).get_state())
        yield
