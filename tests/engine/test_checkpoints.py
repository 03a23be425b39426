"""A checkpoint restores every bit, or is refused with a message."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from damage import flip_a_bit
from torch import Tensor, nn

from spice.engine.checkpoints import Checkpoints, DamagedCheckpointWarning
from spice.engine.processes import Processes
from spice.errors import UserError


def trained() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2))
    module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1, betas=(0.9, 0.99))
    for _ in range(3):
        module(torch.randn(5, 3, 3, 3)).square().sum().backward()
        optimizer.step()
    return module, optimizer


def same(left: object, right: object) -> bool:
    if isinstance(left, Tensor):
        # Bits, not values: NaN equals NaN, and 0.0 does not equal -0.0.
        return (
            isinstance(right, Tensor)
            and left.dtype == right.dtype
            and left.shape == right.shape
            and left.stride() == right.stride()
            and torch.equal(left.contiguous().view(torch.uint8), right.contiguous().view(torch.uint8))
            if left.dim()
            else isinstance(right, Tensor) and left.dtype == right.dtype and repr(left) == repr(right)
        )
    if isinstance(left, dict):
        return isinstance(right, dict) and list(left) == list(right) and all(same(left[k], right[k]) for k in left)
    if isinstance(left, list | tuple):
        return type(left) is type(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    return type(left) is type(right) and repr(left) == repr(right)


def test_a_checkpoint_restores_every_bit(tmp_path: Path) -> None:
    module, optimizer = trained()
    state = {
        "module": module.state_dict(),
        "optimizer": optimizer.state_dict(),
        "numbers": [0.1 + 0.2, float("nan"), float("inf"), -0.0, 2**80, True, None, "text", (1, (2.5,))],
        "odd": {3: torch.tensor([float("nan"), -0.0]), "empty": torch.zeros(0, 4), "half": torch.randn(3).half()},
        "kinds": [torch.tensor(5), torch.tensor([True, False]), torch.arange(4, dtype=torch.uint8)],
        "none": {},
    }
    Checkpoints(tmp_path).save(7, state)
    loaded = Checkpoints(tmp_path).load()
    assert loaded is not None
    assert loaded.step == 7
    assert same(dict(loaded.state), state)


def test_the_memory_layout_is_restored(tmp_path: Path) -> None:
    Checkpoints(tmp_path).save(1, {"weight": torch.randn(4, 3, 5, 5).contiguous(memory_format=torch.channels_last)})
    loaded = Checkpoints(tmp_path).load()
    assert loaded is not None
    assert loaded.state["weight"].is_contiguous(memory_format=torch.channels_last)


def test_two_names_of_one_tensor_are_both_kept(tmp_path: Path) -> None:
    tied = torch.randn(3)
    Checkpoints(tmp_path).save(1, {"a": tied, "b": tied, "part": tied[1:]})
    loaded = Checkpoints(tmp_path).load()
    assert loaded is not None
    assert all(
        torch.equal(loaded.state[name], value) for name, value in {"a": tied, "b": tied, "part": tied[1:]}.items()
    )


def test_saved_tensors_do_not_change_with_the_run(tmp_path: Path) -> None:
    weight = torch.ones(3)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"weight": weight})
    weight.zero_()
    loaded = checkpoints.load()
    assert loaded is not None
    assert loaded.state["weight"].sum() == 3
    loaded.state["weight"].zero_()
    again = checkpoints.load()
    assert again is not None
    assert again.state["weight"].sum() == 3


def test_without_checkpoints_or_a_folder_nothing_is_loaded(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "absent").load() is None
    nowhere = Checkpoints(None, every_seconds=0.0)
    nowhere.save(1, {})
    assert not nowhere.due()
    assert nowhere.load() is None


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 20, 3_000_000_000):
        checkpoints.save(step, {"step": step})
    assert len(list(tmp_path.iterdir())) == 2
    loaded = checkpoints.load()
    assert loaded is not None
    assert loaded.step == 3_000_000_000


@pytest.mark.parametrize("position", [0.0, 0.02, 0.3, 0.999])
def test_one_flipped_bit_anywhere_is_detected(tmp_path: Path, position: float) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"weight": torch.zeros(100), "step": 1})
    checkpoints.save(2, {"weight": torch.ones(100), "step": 2})
    newest = max(tmp_path.iterdir())
    flip_a_bit(newest, at=position)
    with pytest.warns(DamagedCheckpointWarning, match="resuming from step 1 instead"):
        loaded = checkpoints.load()
    assert loaded is not None
    assert loaded.step == 1
    assert loaded.state["weight"].sum() == 0


@pytest.mark.parametrize("kept", [0, 5, 0.5, -1])
def test_a_partial_file_is_refused_with_a_message(tmp_path: Path, kept: float) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"weight": torch.zeros(100)})
    file = next(tmp_path.iterdir())
    content = file.read_bytes()
    file.write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
    with pytest.raises(UserError, match=r"no checkpoint can be read: .*delete .* to start over"):
        checkpoints.load()


def test_a_safetensors_file_from_another_program_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"weight": torch.zeros(3)}, tmp_path / "step-000000000001.safetensors")
    with pytest.raises(UserError, match="checksum"):
        Checkpoints(tmp_path).load()


def test_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    Checkpoints(tmp_path, identity={"rate": 0.1, "crop": (0.2, 1.0)}).save(1, {})
    assert Checkpoints(tmp_path, identity={"crop": (0.2, 1.0), "rate": 0.1}).load() is not None
    with pytest.raises(UserError, match=r"rate was 0\.1, is 0\.2\)"):
        Checkpoints(tmp_path, identity={"rate": 0.2, "crop": (0.2, 1.0)}).load()
    with pytest.raises(UserError, match="seed was None, is 3"):
        Checkpoints(tmp_path, identity={"rate": 0.1, "crop": (0.2, 1.0), "seed": 3}).load()


def test_an_unsupported_type_is_refused_when_saving(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="cannot hold a set"):
        Checkpoints(tmp_path).save(1, {"bad": {1, 2}})
    assert not list(tmp_path.iterdir())


def test_saving_is_due_by_time(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, every_seconds=0.05)
    assert not checkpoints.due()
    time.sleep(0.06)
    assert checkpoints.due()
    checkpoints.save(1, {})
    assert not checkpoints.due()


def test_the_last_step_is_always_saved_and_others_when_due(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, every_seconds=0.05)
    for step in (1, 2, 3, 4):
        if step == 3:
            time.sleep(0.06)
        checkpoints.save_if_due(step, of=4, state=dict)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"step-{step:012d}.safetensors" for step in (3, 4)]


def test_only_the_first_of_several_processes_saves(tmp_path: Path) -> None:
    second = Checkpoints(tmp_path / "checkpoints", every_seconds=0.0, processes=Processes(1, 2))
    assert not second.due()
    second.save_if_due(1, of=1, state=dict)
    second.save(1, {})
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is of POSIX systems")
def test_a_kill_while_saving_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    """Sooner or later, kill -9 hits a save. What is on disk must always load."""
    script = (
        "import torch, sys; from pathlib import Path; from spice.engine.checkpoints import Checkpoints\n"
        "checkpoints = Checkpoints(Path(sys.argv[1]))\n"
        "for step in range(1, 10**6):\n"
        "    checkpoints.save(step, {'weight': torch.full((300_000,), float(step)), 'step': step})\n"
    )
    for wait in (0.02, 0.17):
        process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)])
        while not list(tmp_path.glob("step-*")):
            time.sleep(0.01)
        time.sleep(wait)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        loaded = Checkpoints(tmp_path).load()
        assert loaded is not None
        assert loaded.state["step"] == loaded.step
        assert bool((loaded.state["weight"] == loaded.step).all())
        for file in tmp_path.iterdir():
            file.unlink()


def test_the_header_is_plain_json(tmp_path: Path) -> None:
    Checkpoints(tmp_path, identity={"seed": 3}).save(5, {"loss": 0.25})
    content = next(tmp_path.iterdir()).read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert json.loads(header["__metadata__"]["spice"]) == {
        "step": 5,
        "identity": {"seed": 3},
        "state": {"items": [["loss", 0.25]]},
    }
