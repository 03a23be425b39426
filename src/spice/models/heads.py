"""The clustering heads C: features to logits over clusters (paper III-B).

Shapes: M images, D feature width, W hidden width, K clusters, H heads.
"""

from collections.abc import Mapping
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Head(nn.Module):
    """One head: two layers, D-W-K, with a ReLU between. The paper's is as wide inside as its features, W = D."""

    def __init__(self, width: int, clusters: int, *, hidden: int | None = None) -> None:
        super().__init__()
        self.width, self.clusters = width, clusters
        self.hidden = nn.Linear(width, hidden or width)
        self.out = nn.Linear(hidden or width, clusters)

    def forward(self, features: Tensor) -> Tensor:
        """(M, D) -> logits (M, K)."""
        logits: Tensor = self.out(self.hidden(features).relu())
        return logits

    @classmethod
    def of(cls, state: Mapping[str, Tensor]) -> Self:
        """The head whose `state_dict()` this is, whatever its widths."""
        hidden, width = state["hidden.weight"].shape
        head = cls(width, len(state["out.bias"]), hidden=hidden)
        head.load_state_dict(state)
        return head


class Heads(nn.Module):
    """H independent heads as one batched module: each computes, and learns, as if it were alone."""

    def __init__(self, heads: int, width: int, clusters: int, *, hidden: int | None = None) -> None:
        super().__init__()
        hidden = hidden or width
        self.clusters = clusters
        self.hidden_weight = _uniform(heads, width, hidden, fan_in=width)
        self.hidden_bias = _uniform(heads, 1, hidden, fan_in=width)
        self.out_weight = _uniform(heads, hidden, clusters, fan_in=hidden)
        self.out_bias = _uniform(heads, 1, clusters, fan_in=hidden)

    def __len__(self) -> int:
        return len(self.hidden_weight)

    def forward(self, features: Tensor) -> Tensor:
        """(M, D) that all heads see, or (H, M, D) -> logits (H, M, K)."""
        # A bias as the weight of a feature that is always one: adding it to (H, M, W) would cost as much as a tenth of
        # the product.
        inputs = F.pad(features, (0, 1), value=1.0)
        inputs = inputs.expand(len(self), *inputs.shape[-2:])  # (H, M, D + 1)
        hidden = torch.bmm(inputs, torch.cat([self.hidden_weight, self.hidden_bias], dim=1)).relu_()  # (H, M, W)
        return torch.baddbmm(self.out_bias, hidden, self.out_weight)  # (H, M, K)

    def part(self, heads: slice) -> "Heads":
        """A copy of some of the heads: for work that would need too much memory with all at once."""
        few = Heads.__new__(Heads)
        nn.Module.__init__(few)
        few.clusters = self.clusters
        for name, parameter in self.named_parameters():
            few.register_parameter(name, nn.Parameter(parameter.detach()[heads].clone()))
        return few

    def head(self, number: int) -> Head:
        """A copy of one head."""
        width, hidden = self.hidden_weight.shape[1:]
        head = Head(width, self.clusters, hidden=hidden).to(self.hidden_weight.device)
        with torch.no_grad():
            head.hidden.weight.copy_(self.hidden_weight[number].T)
            head.hidden.bias.copy_(self.hidden_bias[number, 0])
            head.out.weight.copy_(self.out_weight[number].T)
            head.out.bias.copy_(self.out_bias[number, 0])
        return head


def _uniform(*shape: int, fan_in: int) -> nn.Parameter:
    """Drawn as nn.Linear draws its parameters, from torch's global generator."""
    bound = fan_in**-0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
