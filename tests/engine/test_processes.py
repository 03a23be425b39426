"""Two real processes, started by torchrun and connected over loopback, compute the same as one."""

from collections.abc import Callable

import pytest
import torch
from torch import distributed as dist
from torch import nn

from spice.engine.processes import ALONE, Processes, join_processes
from spice.errors import UserError


def test_one_process_needs_no_torch_distributed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with join_processes() as processes:
        assert processes is ALONE
        assert not dist.is_initialized()
        tensor = torch.ones(2, requires_grad=True)
        assert processes.gather_with_gradient(tensor) is tensor
        assert not processes.gather(tensor).requires_grad
        processes.average_gradients_([nn.Parameter(torch.ones(1))])
        processes.broadcast_(nn.Linear(1, 1))
        processes.barrier()
        assert processes.agree(3)
        assert processes.first


def test_a_batch_that_cannot_be_shared_equally_is_refused_with_a_message() -> None:
    Processes(0, 2).refuse_uneven(128)
    with pytest.raises(UserError, match="a batch of 129 images cannot be shared equally by 2 processes: use 128"):
        Processes(0, 2).refuse_uneven(129)
    with pytest.raises(UserError, match="use 4 or another multiple of 4"):
        Processes(0, 4).refuse_uneven(3)


def test_two_processes_exchange_the_right_tensors(two_processes: Callable[..., str]) -> None:
    assert two_processes(TALK).count("all right") == 2


TALK = """
import torch
from torch import nn
from spice.engine.processes import join_processes

with join_processes(torch.device("cpu")) as processes:
    rank = processes.rank
    assert processes.count == 2
    assert processes.first == (rank == 0)
    batch = torch.arange(24.0).view(3, 8).T  # not contiguous
    assert torch.equal(processes.gather(batch[rank::2]), batch)
    assert processes.agree(5)
    assert not processes.agree(rank)

    # All processes get the parameters and buffers of the first.
    torch.manual_seed(rank)
    module = nn.Sequential(nn.Conv2d(3, 4, 2), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2)).to(
        memory_format=torch.channels_last
    )
    module[1].running_mean.fill_(rank + 1.0)
    processes.broadcast_(module)
    for tensor in (*module.parameters(), *module.buffers()):
        both = processes.gather(tensor.reshape(1, -1))
        assert torch.equal(both[0], both[1])
    assert module[1].running_mean.tolist() == [1.0] * 4

    # The loss depends on all pairs of images. Its gradient equals that of one process on the whole batch.
    torch.manual_seed(0)
    images, network = torch.randn(6, 4), nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))

    def loss_of(own, everyone):
        return (own @ everyone.T).logsumexp(dim=1).mean()

    whole = network(images)
    loss_of(whole, whole).backward()
    expected = [parameter.grad.clone() for parameter in network.parameters()]
    network.zero_grad()
    own = network(images[rank::2])
    loss_of(own, processes.gather_with_gradient(own)).backward()
    processes.average_gradients_(network.parameters())
    for parameter, gradient in zip(network.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)
    processes.barrier()
    print("all right", flush=True)
"""
