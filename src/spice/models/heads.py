"""The clustering heads C, from features to logits over clusters (paper III-B).

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
    """One head: two linear layers, D-W-K, with a ReLU in between. In the paper, W = D."""

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
        """The head with this `state_dict()`, which also gives its widths."""
        hidden, width = state["hidden.weight"].shape
        head = cls(width, len(state["out.bias"]), hidden=hidden)
        head.load_state_dict(state)
        return head


class Heads(nn.Module):
    """H independent heads in one batched module."""

    def __init__(self, heads: int, width: int, clusters: int, *, hidden: int | None = None) -> None:
        super().__init__()
        hidden = hidden or width
        self.clusters = clusters
        # The first bias is the weight of a constant input of 1. Adding it to (H, M, W) would take a tenth of the time
        # of the matrix product.
        layers = [_uniform(heads, rows, hidden, fan_in=width) for rows in (width, 1)]
        self.hidden = nn.Parameter(torch.cat(layers, dim=1))  # (H, D + 1, W)
        self.out_weight = nn.Parameter(_uniform(heads, hidden, clusters, fan_in=hidden))
        self.out_bias = nn.Parameter(_uniform(heads, 1, clusters, fan_in=hidden))

    def __len__(self) -> int:
        return len(self.hidden)

    def forward(self, features: Tensor) -> Tensor:
        """(M, D) for all heads, or (H, M, D) -> logits (H, M, K), stored as (H, K, M)."""
        inputs = F.pad(features, (0, 1), value=1.0)
        inputs = inputs.expand(len(self), *inputs.shape[-2:])  # (H, M, D + 1)
        logits: Tensor = _TwoLayers.apply(  # type: ignore[no-untyped-call]
            inputs, self.hidden, self.out_weight, self.out_bias, torch.is_grad_enabled()
        )
        return logits.mT

    def part(self, heads: slice) -> "Heads":
        """A copy of some of the heads, for work that would need too much memory with all of them."""
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
    """Initial values as in nn.Linear, from torch's global generator."""
    bound = fan_in**-0.5
    return torch.empty(shape).uniform_(-bound, bound)


# On a CPU, at most this many hidden activations are computed at once, so that they stay in the cache.
_CACHED_ACTIVATIONS = 800_000


class _TwoLayers(torch.autograd.Function):
    """relu(inputs @ hidden_weight) @ out_weight + out_bias of every head, transposed, a few heads at a time.

    Separate operations on all heads take up to a third more time, forward and backward: each would read and write tens
    of megabytes of hidden activations. The result has clusters before images, because the operations that follow use
    this layout (see `cluster_probs`), and because a product with ten rows is faster than one with ten columns.
    """

    @staticmethod
    def forward(  # noqa: PLR0917
        ctx: Any, inputs: Tensor, hidden_weight: Tensor, out_weight: Tensor, out_bias: Tensor, training: bool
    ) -> Tensor:
        """(H, M, D), (H, D, W), (H, W, K), (H, 1, K) -> (H, K, M). Keeps hidden activations only in training."""
        at_once = _heads_at_once(inputs, out_weight.shape[1])
        hidden = inputs.new_empty(len(inputs) if training else at_once, inputs.shape[1], out_weight.shape[1])
        logits = inputs.new_empty(len(inputs), out_weight.shape[2], inputs.shape[1])
        buffers = torch.split(hidden, at_once) if training else itertools.repeat(hidden)
        tensors = (inputs, hidden_weight, out_weight.mT, out_bias.mT, logits)
        parts = (torch.split(tensor, at_once) for tensor in tensors)
        for buffer, x, w_hidden, w_out, bias, out in zip(buffers, *parts, strict=False):
            activations = torch.bmm(x, w_hidden, out=buffer[: len(x)]).relu_()
            torch.baddbmm(bias, w_out, activations.mT, out=out)
        if training:
            ctx.save_for_backward(inputs, hidden_weight, out_weight, hidden)
        return logits

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """d loss / d logits (H, K, M) -> d loss / d each argument of `forward`."""
        inputs, hidden_weight, out_weight, hidden = ctx.saved_tensors
        gradient = gradient.contiguous()
        grad_hidden_weight = torch.empty_like(hidden_weight)
        grad_out_weight = out_weight.new_empty(out_weight.mT.shape)  # (H, K, W)
        grad_inputs = []
        tensors = (gradient, inputs.mT, hidden_weight.mT, out_weight.mT, hidden, grad_hidden_weight, grad_out_weight)
        parts = (torch.split(tensor, _heads_at_once(inputs, hidden.shape[2])) for tensor in tensors)
        for grad, x, w_hidden, w_out, activations, grad_w_hidden, grad_w_out in zip(*parts, strict=True):
            torch.bmm(grad, activations, out=grad_w_out)
            grad_hidden = torch.bmm(grad.mT, w_out)
            # The gradient of the ReLU: autograd's own operation, in place.
            torch.ops.aten.threshold_backward.grad_input(grad_hidden, activations, 0, grad_input=grad_hidden)
            torch.bmm(x, grad_hidden, out=grad_w_hidden)
            if ctx.needs_input_grad[0]:
                grad_inputs.append(torch.bmm(grad_hidden, w_hidden))
        grad_bias = gradient.sum(dim=2).unsqueeze(dim=1)
        return torch.cat(grad_inputs) if grad_inputs else None, grad_hidden_weight, grad_out_weight.mT, grad_bias, None


def _heads_at_once(inputs: Tensor, width: int) -> int:
    """How many heads' hidden activations, (M, width) each, fit into the cache of a CPU; all on other devices."""
    if inputs.device.type != "cpu":
        return len(inputs)
    return max(1, _CACHED_ACTIVATIONS // max(1, inputs.shape[1] * width))
