"""The device: a GPU if there is one, else the CPU, which is a first-class target.

On a CPU, `autocast`, `grad_scaler` and `to_device` change nothing: results are those of plain torch, bit for bit.
"""

import os
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.amp import GradScaler

from spice.errors import UserError

Module = TypeVar("Module", bound=nn.Module)


def choose_device(name: str = "auto") -> torch.device:
    """The device called `name`. "auto" is a CUDA GPU (under torchrun, that of this process), else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"unknown device {name!r}; use auto, cpu, cuda, cuda:0, ... or mps") from error
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise UserError("device 'mps' is not available, because torch sees no Apple GPU: use cpu or auto")
    if device.type != "cuda":
        return device
    if not torch.cuda.is_available():
        raise UserError(f"device {name!r} is not available, because torch sees no CUDA GPU: use cpu or auto")
    if device.index is None:
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    if device.index >= torch.cuda.device_count():
        raise UserError(f"there is no GPU {device}; torch sees {torch.cuda.device_count()}, numbered from 0")
    return device


def explain_auto() -> str:
    """Which device "auto" selects on this machine, and why."""
    device = choose_device()
    if device.type == "cuda":
        return f"{device}: torch sees {torch.cuda.get_device_name(device)}"
    if torch.backends.mps.is_available():
        return "cpu: torch sees an Apple GPU, which is used only if you choose mps"
    if torch.version.cuda is None and torch.version.hip is None:
        return "cpu: torch sees no GPU (it was built for CPUs only)"
    return "cpu: torch sees no GPU"


def module_to_device(module: Module, device: torch.device) -> Module:
    """The module on `device`, with its convolutions in channels-last layout (faster on CPU and GPU)."""
    return module.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on `device`. The copy to a CUDA GPU is asynchronous, from pinned memory."""
    if device.type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(device)
    with torch.cuda.device(device):  # in a new thread the current GPU is 0, and pinning would allocate memory there
        return tensor.pin_memory().to(device, non_blocking=True)


def precision(device: torch.device) -> torch.dtype:
    """The precision of networks on `device`: bfloat16 or float16 on a CUDA GPU, float32 elsewhere."""
    if device.type != "cuda":
        return torch.float32
    with torch.cuda.device(device):
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16


def autocast(device: torch.device) -> AbstractContextManager[object]:
    """A context that runs networks in the `precision` of the device. Weights and their gradients stay float32."""
    dtype = precision(device)
    return nullcontext() if dtype == torch.float32 else torch.autocast(device.type, dtype=dtype)


def grad_scaler(device: torch.device) -> GradScaler:
    """Scales the loss, so that small gradients do not vanish in float16. It does nothing in other precisions."""
    return GradScaler(device.type, enabled=precision(device) == torch.float16)
