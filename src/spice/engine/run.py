"""`Run`: how and where a stage runs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from spice.engine.checkpoints import Checkpoints
from spice.engine.processes import ALONE, CPU, Processes
from spice.progress import Progress, silent
from spice.randomness import generator


@dataclass(frozen=True)
class Run:
    """The seed, folder, device, processes and progress callback of a task."""

    seed: int = 0
    # Folder of checkpoints and files. None: nothing is saved, and the task cannot be resumed.
    folder: Path | None = None
    device: torch.device = CPU
    processes: Processes = ALONE
    progress: Progress = silent

    def with_folder(self, folder: Path | None) -> "Run":
        """The same run with another folder."""
        return replace(self, folder=folder)

    def with_seed(self, seed: int) -> "Run":
        """The same run with another seed."""
        return replace(self, seed=seed)

    def generator(self, *purpose: str | int) -> torch.Generator:
        """A random generator for one purpose: the same seed and purpose give the same draws."""
        return generator(self.seed, *purpose)

    def checkpoints(self, identity: Mapping[str, object], *, every_seconds: float = 60.0) -> Checkpoints:
        """The checkpoints of this task, valid only for this seed and `identity`."""
        return Checkpoints(
            self.folder,
            identity={**identity, "seed": self.seed},
            every_seconds=every_seconds,
            processes=self.processes,
        )
