"""Checkpoints: nested state in a safetensors file with JSON in its header, from which a killed run resumes.

No pickle. Files are written atomically. The last two are kept, so a damaged file costs one interval.
"""

import json
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from spice.engine.processes import ALONE, Processes
from spice.errors import SpiceWarning, UserError, warn_user
from spice.files import written_atomically


class DamagedCheckpointWarning(SpiceWarning):
    """A checkpoint cannot be read, and an older one is used."""


class Saved(NamedTuple):
    """A saved state, and the number of finished steps."""

    step: int
    state: dict[str, Any]  # Any as in torch's own state_dict()


class Checkpoints:
    """The checkpoints of one task, in a separate folder. Without a folder, nothing is saved.

    With several processes, all load and the first one saves.

    Args:
        identity: what the task depends on (settings, seed, number of images). A checkpoint with a different identity is
            refused, because the result would depend on both.
        every_seconds: the interval between checkpoints. It grows if saving is slow, so that saving takes < 5 % of time.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        identity: Mapping[str, object] | None = None,
        every_seconds: float = 60.0,
        processes: Processes = ALONE,
    ) -> None:
        self.folder, self.processes = folder, processes
        # Converted to JSON and back, because tuples become lists.
        self.identity: dict[str, object] = json.loads(json.dumps(dict(identity or {})))
        self.every_seconds = every_seconds
        self._saved_at = time.monotonic()
        self._cost = 0.0

    def due(self) -> bool:
        """Whether it is time to save."""
        interval = max(self.every_seconds, 20.0 * self._cost)
        return self._saves and time.monotonic() - self._saved_at >= interval

    def save_if_due(self, step: int, *, of: int, state: Callable[[], Mapping[str, object]]) -> None:
        """Save after step number `step` if it is time to save, or if it is the last one."""
        if self.due() or step == of:
            self.save(step, state())

    def save(self, step: int, state: Mapping[str, object]) -> None:
        """Write the state after `step` steps, then delete all but the last two.

        A state may hold whatever `state_dict()` of a module or optimizer holds: tensors, numbers, strings, None, and
        lists, tuples and dictionaries of these.
        """
        if not self._saves:
            return
        assert self.folder is not None
        started = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        tensors: dict[str, Tensor] = {}
        header = json.dumps({"step": step, "identity": self.identity, "state": _flatten(state, tensors)})
        metadata = {"spice": header, "checksum": _checksum(header, tensors)}
        with written_atomically(self.folder / f"step-{step:012d}.safetensors") as path:
            save_file(tensors, path, metadata)
        for old in self._files()[2:]:
            old.unlink(missing_ok=True)
        self._saved_at = time.monotonic()
        self._cost = self._saved_at - started

    def load(self) -> Saved | None:
        """The newest readable state, the same in all processes. None if there are no checkpoints."""
        saved = self._newest()
        if not self.processes.agree(0 if saved is None else saved.step):
            raise UserError(f"the processes find different checkpoints in {self.folder}: delete it to start over")
        return saved

    @property
    def _saves(self) -> bool:
        return self.folder is not None and self.processes.first

    def _newest(self) -> Saved | None:
        unreadable = []
        for path in self._files():
            try:
                header, state = _read(path)
            except (SafetensorError, OSError, ValueError) as error:
                unreadable.append(f"{path} ({error})")
                continue
            if header["identity"] != self.identity:
                raise UserError(
                    f"the checkpoint {path} was written with different settings ({self._changes(header['identity'])}): "
                    f"use those again, or delete {path.parent} to start over"
                )
            if unreadable:
                warn_user(
                    f"damaged checkpoint {', '.join(unreadable)}: resuming from step {header['step']} instead",
                    DamagedCheckpointWarning,
                )
            return Saved(header["step"], state)
        if unreadable:
            raise UserError(f"no checkpoint can be read: {', '.join(unreadable)}; delete {self.folder} to start over")
        return None

    def _files(self) -> list[Path]:
        """Newest first."""
        return sorted(self.folder.glob("step-*.safetensors"), reverse=True) if self.folder is not None else []

    def _changes(self, saved: dict[str, object]) -> str:
        missing = object()  # a missing setting differs from one that is None
        return ", ".join(
            f"{name} was {saved.get(name)!r}, is {self.identity.get(name)!r}"
            for name in sorted({*saved, *self.identity})
            if saved.get(name, missing) != self.identity.get(name, missing)
        )


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
        # Copies, because the tensors are mapped to the file, which could change during the run.
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    if "spice" not in metadata or metadata.get("checksum") != _checksum(metadata["spice"], tensors):
        raise ValueError("its checksum does not match")
    header = json.loads(metadata["spice"])
    return header, _unflatten(header["state"], tensors)


def _checksum(header: str, tensors: Mapping[str, Tensor]) -> str:
    checksum = zlib.crc32(header.encode())
    for name, tensor in sorted(tensors.items()):
        checksum = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), checksum)
        checksum = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data, checksum)
    return f"{checksum:08x}"


def _flatten(state: object, tensors: dict[str, Tensor]) -> object:
    """The state as JSON. Each tensor moves to `tensors` and is replaced by its name there."""
    if isinstance(state, Tensor):
        name = str(len(tensors))
        # The memory layout is saved too, because sums over another layout may round differently.
        channels_last = state.dim() == 4 and state.is_contiguous(memory_format=torch.channels_last)
        tensors[name] = state.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {"tensor": name, "channels_last": channels_last and not state.is_contiguous()}
    if isinstance(state, Mapping):
        return {"items": [[key, _flatten(value, tensors)] for key, value in state.items()]}
    if isinstance(state, tuple):
        return {"tuple": [_flatten(value, tensors) for value in state]}
    if isinstance(state, list):
        return [_flatten(value, tensors) for value in state]
    if state is None or isinstance(state, bool | int | float | str):
        return state
    raise TypeError(f"a checkpoint cannot hold a {type(state).__name__}")


def _unflatten(state: Any, tensors: Mapping[str, Tensor]) -> Any:
    match state:
        case {"tensor": name, "channels_last": channels_last}:
            return tensors[name].contiguous(memory_format=torch.channels_last) if channels_last else tensors[name]
        case {"items": items}:
            return {key: _unflatten(value, tensors) for key, value in items}
        case {"tuple": values}:
            return tuple(_unflatten(value, tensors) for value in values)
        case list():
            return [_unflatten(value, tensors) for value in state]
    return state
