"""Learning-rate schedules as functions of the step, so that a resumed run has no state to restore."""

import math

from torch.optim import Optimizer


def cosine(step: int, steps: int) -> float:
    """From 1 at step 0 down to 0 at `steps`: (1 + cos(pi t / T)) / 2, the schedule of MoCo-v2."""
    return 0.5 * (1.0 + math.cos(math.pi * step / steps))


def warm_cosine(step: int, steps: int, *, warmup: int) -> float:
    """Linear from 1 / (warmup + 1) to 1 over the first `warmup` steps, then cosine to 0."""
    if step < warmup:
        return (step + 1) / (warmup + 1)
    return cosine(step - warmup, steps - warmup)


def seven_sixteenths_cosine(step: int, steps: int) -> float:
    """FixMatch's schedule: cos(7 pi t / 16 T), from 1 down to 0.195."""
    return math.cos(7.0 * math.pi * step / (16.0 * steps))


def set_learning_rate_(optimizer: Optimizer, rate: float) -> None:
    """Set the learning rate of all parameter groups."""
    for group in optimizer.param_groups:
        group["lr"] = rate
