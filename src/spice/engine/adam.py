"""Adam (Kingma and Ba 2015) for a few large parameters.

`torch.optim` imports torch's compiler, which takes 1.4 s of CPU time: as long as training the heads of a small
collection.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

MEAN_DECAY, SQUARE_DECAY, EPSILON = 0.9, 0.999, 1e-8


class Adam:
    """The same updates as `torch.optim.Adam` without weight decay."""

    def __init__(self, parameters: Iterable[nn.Parameter], *, learning_rate: float) -> None:
        self.parameters, self.learning_rate, self.steps = list(parameters), learning_rate, 0
        self.means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in self.parameters]

    def zero_grad(self) -> None:
        """Clear the gradients before a backward pass."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update all parameters from their gradients."""
        self.steps += 1
        rate = self.learning_rate / (1 - MEAN_DECAY**self.steps)
        correction = math.sqrt(1 - SQUARE_DECAY**self.steps)  # the average of squares starts at zero
        for parameter, mean, square in zip(self.parameters, self.means, self.squares, strict=True):
            gradient = parameter.grad
            assert gradient is not None, "step() follows a backward pass"
            mean.lerp_(gradient, 1 - MEAN_DECAY)
            square.mul_(SQUARE_DECAY).addcmul_(gradient, gradient, value=1 - SQUARE_DECAY)
            parameter.addcdiv_(mean, square.sqrt().div_(correction).add_(EPSILON), value=-rate)

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        return {"steps": self.steps, "means": self.means, "squares": self.squares}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state from a checkpoint."""
        self.steps = state["steps"]
        for name in ("means", "squares"):
            for mine, saved in zip(getattr(self, name), state[name], strict=True):
                mine.copy_(saved)
