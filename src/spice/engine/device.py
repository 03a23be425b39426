"""The device: a GPU if there is one, else the CPU, which is a first-class target."""

import os
from typing import TypeVar

import torch
from torch import nn

from spice.errors import UserError

Module = TypeVar("Module", bound=nn.Module)


def choose(name: str = "auto") -> torch.device:
    """The device called `name`; "auto" is a CUDA GPU (under torchrun, this process's own), or the CPU without one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"there is no device called {name!r}: use auto, cpu, cuda, cuda:0, ... or mps") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"device {name!r} is not available, because torch sees no CUDA GPU: use cpu or auto")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise UserError("device 'mps' is not available, because torch sees no Apple GPU: use cpu or auto")
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return device


def placed(module: Module, device: torch.device) -> Module:
    """The module on `device`, its convolutions channels-last (faster on CPU and GPU alike)."""
    return module.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
