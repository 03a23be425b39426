"""Several processes that train one model, started by torchrun and connected by gloo (CPU) or nccl (GPU).

With a single process, collective operations change nothing, so stages need no special case.
"""

import datetime
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch import distributed as dist

from spice.errors import UserError

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Processes:
    """The rank of this process, and collective operations. All processes must make the same calls."""

    rank: int = 0
    count: int = 1
    device: torch.device = CPU

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and reports progress."""
        return self.rank == 0

    def refuse_uneven(self, batch: int) -> None:
        """Refuse a batch size that is not divisible by the number of processes."""
        if batch % self.count:
            raise UserError(
                f"a batch of {batch} images cannot be shared equally by {self.count} processes: "
                f"use {batch - batch % self.count or self.count} or another multiple of {self.count}"
            )

    def gather(self, tensor: Tensor) -> Tensor:
        """The rows of all P processes in the order of the batch, of which each has every P-th: (B, ...) -> (P B, ...).

        So `gather(batch[rank::count])` is `batch` (see `data.batches`). The result has no gradient.
        """
        return self.gather_with_gradient(tensor.detach())

    def gather_with_gradient(self, tensor: Tensor) -> Tensor:
        """As `gather`, but each process receives the gradients from all processes for its rows.

        If the loss of each process is a mean over its own images, and `average_gradients_` follows the backward pass,
        the parameters get the same gradient as from a single process: that of the mean over all images.
        """
        if self.count == 1:
            return tensor
        own = tensor.to(self.device)  # nccl exchanges tensors on GPUs only
        parts = [torch.empty_like(own, memory_format=torch.contiguous_format) for _ in range(self.count)]
        dist.all_gather(parts, own.detach().contiguous())
        parts[self.rank] = own  # the only rows with a gradient path to this process's network
        gathered = torch.stack(parts, dim=1).flatten(0, 1).to(tensor.device)
        if gathered.requires_grad:
            gathered.register_hook(_sum_over_processes)  # type: ignore[no-untyped-call]
        return gathered

    def average_gradients_(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace every gradient by its mean over the processes, in one all-reduce."""
        if self.count == 1:
            return
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        flat /= self.count
        for gradient, mean in zip(gradients, torch.split(flat, [one.numel() for one in gradients]), strict=True):
            gradient.copy_(mean.view(gradient.shape))

    def broadcast_(self, module: nn.Module) -> None:
        """Copy the first process's parameters and buffers to all."""
        if self.count == 1:
            return
        for tensor in (*module.parameters(), *module.buffers()):
            whole = tensor.detach().contiguous()
            dist.broadcast(whole, src=0)
            tensor.detach().copy_(whole)

    def agree(self, number: int) -> bool:
        """Whether all processes have the same number."""
        return bool((self.gather(torch.tensor([number], device=self.device)) == number).all())

    def barrier(self) -> None:
        """Wait until all processes are here."""
        if self.count > 1:
            dist.barrier()


def _sum_over_processes(gradient: Tensor) -> Tensor:
    total = gradient.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total


ALONE = Processes()


def processes_from_environment() -> Processes:
    """The rank and the number of processes that torchrun set, for work without communication."""
    return Processes(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))


@contextmanager
def join_processes(device: torch.device = CPU) -> Iterator[Processes]:
    """Connect the processes that torchrun started, unless the caller did. `ALONE` without torchrun."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield ALONE
        return
    if dist.is_initialized():
        yield Processes(dist.get_rank(), dist.get_world_size(), device)
        return
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo", timeout=datetime.timedelta(minutes=30))
    try:
        yield Processes(dist.get_rank(), dist.get_world_size(), device)
    finally:
        dist.destroy_process_group()
