"""Devices are named as in torch, and a missing one is refused with a message."""

import pytest
import torch
from torch import nn

from spice.engine import device
from spice.errors import UserError


def test_auto_is_the_cpu_if_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device.choose_device() == torch.device("cpu")
    assert device.choose_device("cpu") == torch.device("cpu")


def test_each_process_uses_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert device.choose_device() == torch.device("cuda", 3)
    assert device.choose_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(UserError, match="no GPU cuda:4; torch sees 4"):
        device.choose_device("cuda:4")
    monkeypatch.setenv("LOCAL_RANK", "4")
    with pytest.raises(UserError, match="no GPU cuda:4; torch sees 4"):
        device.choose_device()


def test_the_choice_of_auto_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    assert torch.cuda.is_available() or device.explain_auto().startswith("cpu: torch sees")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert device.explain_auto() == "cpu: torch sees no GPU"
    monkeypatch.setattr(torch.version, "cuda", None)
    assert "built for CPUs only" in device.explain_auto()
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert "choose mps" in device.explain_auto()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA A100")
    assert device.explain_auto() == "cuda:0: torch sees NVIDIA A100"


def test_a_missing_or_misspelled_device_is_refused_with_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="sees no CUDA GPU"):
        device.choose_device("cuda")
    with pytest.raises(UserError, match="unknown device 'gpu'"):
        device.choose_device("gpu")


def test_convolutions_have_the_channels_last_layout() -> None:
    module = device.module_to_device(nn.Conv2d(3, 8, 3), torch.device("cpu"))
    assert module.weight.is_contiguous(memory_format=torch.channels_last)
