"""How the weight of the images without labels rises, while the network knows little about them."""

import math


def sigmoid_ramp(done: float, *, until: float = 0.4) -> float:
    """exp(-5 (1 - t)^2), t rising from 0 to 1 over the first 0.4 of training (Laine and Aila, 2017)."""
    return math.exp(-5.0 * (1.0 - min(1.0, done / until)) ** 2)
