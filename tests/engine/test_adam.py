"""Adam without torch's compiler takes the same steps as `torch.optim.Adam`."""

import subprocess
import sys

import torch
from torch import nn

from spice.engine.adam import Adam


def test_adam_takes_the_same_steps_as_torch() -> None:
    mine, theirs = nn.Linear(3, 2), nn.Linear(3, 2)
    theirs.load_state_dict(mine.state_dict())
    adam, torchs = Adam(mine.parameters(), learning_rate=0.1), torch.optim.Adam(theirs.parameters(), lr=0.1)
    for step in range(5):
        inputs = torch.randn(4, 3, generator=torch.Generator().manual_seed(step))
        for network, optimizer in ((mine, adam), (theirs, torchs)):
            optimizer.zero_grad()
            network(inputs).square().sum().backward()
            optimizer.step()
        torch.testing.assert_close(mine.weight, theirs.weight)
        torch.testing.assert_close(mine.bias, theirs.bias)


def test_a_restored_adam_continues_bit_for_bit() -> None:
    parameter = nn.Parameter(torch.tensor([1.0, -2.0]))
    adam = Adam([parameter], learning_rate=0.1)
    _step(adam, parameter)
    other = nn.Parameter(parameter.detach().clone())
    restored = Adam([other], learning_rate=0.1)
    restored.load_state_dict(adam.state_dict())
    _step(adam, parameter)
    _step(restored, other)
    assert torch.equal(parameter, other)


def test_training_heads_does_not_load_the_compiler() -> None:
    code = """
import sys, torch
from spice.engine.adam import Adam
weight = torch.nn.Parameter(torch.ones(2))
adam = Adam([weight], learning_rate=0.1)
weight.sum().backward()
adam.step()
import spice.stages.heads.train, spice.stages.groups.learn
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def _step(adam: Adam, parameter: nn.Parameter) -> None:
    adam.zero_grad()
    parameter.pow(4).sum().backward()  # type: ignore[no-untyped-call]
    adam.step()
