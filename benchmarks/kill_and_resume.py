"""Does a run of stage 1 that is killed again and again (kill -9) end in the same weights as one that is left alone?

python benchmarks/kill_and_resume.py --runs 10 --kills 3
"""

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor

from spice.settings import FeatureSettings
from spice.stages.features import train_features

SETTINGS = FeatureSettings(network="resnet10", width=8, batch=32, epochs=6, projection=16, momentum=None)


class Noise:
    """Images without a file."""

    size, channels = 16, 3

    def __init__(self) -> None:
        self.pixels = torch.randint(
            0, 256, (640, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
        )

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, positions: Tensor) -> Tensor:
        return self.pixels[positions]


def train(folder: Path) -> None:
    """One run, or the rest of one; prints a hash of all its weights."""
    model = train_features(Noise(), SETTINGS, seed=0, folder=folder, checkpoint_seconds=0.0)
    digest = hashlib.sha256()
    for name, tensor in sorted(model.network.state_dict().items()):
        digest.update(name.encode() + tensor.contiguous().numpy().tobytes())
    print(digest.hexdigest())


def start(folder: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--train", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def finish(folder: Path) -> str:
    process = start(folder)
    output, _ = process.communicate()
    assert process.returncode == 0
    return output.strip()


def kill_once(folder: Path, draw: random.Random) -> bool:
    """Start, wait for a first step, kill at a random moment after it; whether the kill came before the end."""
    before = set(folder.glob("*")) if folder.exists() else set()
    process = start(folder)
    while process.poll() is None and not (folder.exists() and set(folder.glob("step-*")) - before):
        time.sleep(0.005)
    time.sleep(draw.uniform(0.0, 0.6))
    running = process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return running


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the moments at which runs are killed")
    parser.add_argument("--folder", type=Path, help="where to work (default: a temporary folder)")
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train(arguments.train)
        return
    draw = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as temporary:
        expected = finish(Path(temporary) / "whole")
        same = landed = 0
        for run in range(arguments.runs):
            folder = Path(temporary) / str(run)
            landed += sum(kill_once(folder, draw) for _ in range(arguments.kills))
            same += finish(folder) == expected
    print(f"{same} of {arguments.runs} runs ended in the same weights; {landed} kills landed in a running process")
    sys.exit(0 if same == arguments.runs and landed else 1)


if __name__ == "__main__":
    main()
