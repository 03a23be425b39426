"""The clustering heads C: features to logits over clusters (paper III-B).

Shapes: M images, D feature width, W hidden width, K clusters, H heads.
"""

import itertools
from collections.abc import Mapping
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class Head(nn.Module):
    """One head: two layers, D-W-K, with a ReLU between. The paper's hidden layer is as wide as its features, W = D."""

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
    def from_state_dict(cls, state: Mapping[str, Tensor]) -> Self:
        """The head with this `state_dict()`, whatever its widths."""
        hidden, width = state["hidden.weight"].shape
        head = cls(width, len(state["out.bias"]), hidden=hidden)
        head.load_state_dict(state)
        return head


class Heads(nn.Module):
    """H independent heads as one batched module."""

    def __init__(self, heads: int, width: int, clusters: int, *, hidden: int | None = None) -> None:
        super().__init__()
        hidden = hidden or width
        self.clusters = clusters
        # The first bias is the weight of a constant input of 1: adding it to (H, M, W) would cost a tenth of the
        # time of the product.
        layers = [_uniform(heads, rows, hidden, fan_in=width) for rows in (width, 1)]
        self.hidden = nn.Parameter(torch.cat(layers, dim=1))  # (H, D + 1, W)
        self.out_weight = nn.Parameter(_uniform(heads, hidden, clusters, fan_in=hidden))
        self.out_bias = nn.Parameter(_uniform(heads, 1, clusters, fan_in=hidden))

    def __len__(self) -> int:
        return len(self.hidden)

    def forward(self, features: Tensor) -> Tensor:
        """(M, D) for all heads, or (H, M, D) -> logits (H, M, K), which lie in memory as (H, K, M)."""
        inputs = F.pad(features, (0, 1), value=1.0)
        inputs = inputs.expand(len(self), *inputs.shape[-2:])  # (H, M, D + 1)
        logits: Tensor = _TwoLayers.apply(  # type: ignore[no-untyped-call]
            inputs, self.hidden, self.out_weight, self.out_bias, torch.is_grad_enabled()
        )
        return logits.mT

    def part(self, heads: slice) -> "Heads":
        """A copy of some of the heads, for work that needs too much memory with all at once."""
        few = Heads.__new__(Heads)
        nn.Module.__init__(few)
        few.clusters = self.clusters
        for name, parameter in self.named_parameters():
            few.register_parameter(name, nn.Parameter(parameter.detach()[heads].clone()))
        return few

    def head(self, number: int) -> Head:
        """A copy of one head."""
        rows, hidden = self.hidden.shape[1:]
        head = Head(rows - 1, self.clusters, hidden=hidden).to(self.hidden.device)
        with torch.no_grad():
            head.hidden.weight.copy_(self.hidden[number, :-1].T)
            head.hidden.bias.copy_(self.hidden[number, -1])
            head.out.weight.copy_(self.out_weight[number].T)
            head.out.bias.copy_(self.out_bias[number, 0])
        return head


def _uniform(*shape: int, fan_in: int) -> Tensor:
    """Drawn as nn.Linear draws its parameters, from torch's global generator."""
    bound = fan_in**-0.5
    return torch.empty(shape).uniform_(-bound, bound)


# On a CPU, at most this many numbers of hidden layers are computed at once, so that they stay in the cache.
_CACHED = 800_000


class _TwoLayers(torch.autograd.Function):
    """relu(inputs @ hidden_weight) @ out_weight + out_bias of every head, a few heads at a time, transposed.

    Separate operations would each read the hidden layers of all heads, tens of megabytes, before the next begins: up to
    a third more time, forward and backward. Clusters come before images because what follows uses that layout (see
    `cluster_probs`), and because a product of ten rows is faster than one of ten columns.
    """

    @staticmethod
    def forward(  # noqa: PLR0917
        ctx: Any, inputs: Tensor, hidden_weight: Tensor, out_weight: Tensor, out_bias: Tensor, learning: bool
    ) -> Tensor:
        """(H, M, D), (H, D, W), (H, W, K), (H, 1, K) -> (H, K, M). Keeps hidden layers only if heads are learning."""
        at_once = _heads_at_once(inputs, out_weight.shape[1])
        hidden = inputs.new_empty(len(inputs) if learning else at_once, inputs.shape[1], out_weight.shape[1])
        logits = inputs.new_empty(len(inputs), out_weight.shape[2], inputs.shape[1])
        buffers = torch.split(hidden, at_once) if learning else itertools.repeat(hidden)
        parts = (torch.split(table, at_once) for table in (inputs, hidden_weight, out_weight.mT, out_bias.mT, logits))
        for buffer, some, inward, outward, bias, out in zip(buffers, *parts, strict=False):
            inside = torch.bmm(some, inward, out=buffer[: len(some)]).relu_()
            torch.baddbmm(bias, outward, inside.mT, out=out)
        if learning:
            ctx.save_for_backward(inputs, hidden_weight, out_weight, hidden)
        return logits

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """d loss / d logits (H, K, M) -> d loss / d each argument of `forward`."""
        inputs, hidden_weight, out_weight, hidden = ctx.saved_tensors
        gradient = gradient.contiguous()
        of_hidden_weight = torch.empty_like(hidden_weight)
        of_out_weight = out_weight.new_empty(out_weight.mT.shape)  # (H, K, W)
        of_inputs = []
        tables = (gradient, inputs.mT, hidden_weight.mT, out_weight.mT, hidden, of_hidden_weight, of_out_weight)
        parts = (torch.split(table, _heads_at_once(inputs, hidden.shape[2])) for table in tables)
        for slope, some, inward, outward, inside, of_inward, of_outward in zip(*parts, strict=True):
            torch.bmm(slope, inside, out=of_outward)
            of_inside = torch.bmm(slope.mT, outward)
            # The gradient of the ReLU: autograd's own operation, in place.
            torch.ops.aten.threshold_backward.grad_input(of_inside, inside, 0, grad_input=of_inside)
            torch.bmm(some, of_inside, out=of_inward)
            if ctx.needs_input_grad[0]:
                of_inputs.append(torch.bmm(of_inside, inward))
        of_bias = gradient.sum(dim=2).unsqueeze(dim=1)
        return torch.cat(of_inputs) if of_inputs else None, of_hidden_weight, of_out_weight.mT, of_bias, None


def _heads_at_once(inputs: Tensor, width: int) -> int:
    """How many heads' hidden layers, (M, width) each, fit the cache of a CPU; on other devices all heads."""
    if inputs.device.type != "cpu":
        return len(inputs)
    return max(1, _CACHED // max(1, inputs.shape[1] * width))
