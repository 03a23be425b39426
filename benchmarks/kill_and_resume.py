"""Is the result of a run that is killed repeatedly (kill -9) and resumed identical to that of an uninterrupted run?

python benchmarks/kill_and_resume.py --runs 10 --kills 3                   # all three stages, from scratch
python benchmarks/kill_and_resume.py --runs 10 --kills 3 --encoder lite0   # stage 2 on a trained encoder
python benchmarks/kill_and_resume.py --runs 10 --kills 3 --encoder refine  # the same, then joint training

Each kill aims at a random moment of one step of the run, and all steps take turns. After the last kill, the run is
resumed to its end. Checkpoints are written after every training step instead of every minute, so that kills happen
before, during and after writing. All files of the run are compared bit for bit, except the manifest and the report,
which contain times, the store, whose order is that of reading, and the times in records of steps.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import torch._dynamo  # noqa: F401 - imported once, not in every forked process: the first optimizer needs it

import spice.models.frozen  # noqa: F401 - the same: ONNX Runtime
from spice.engine.checkpoints import Checkpoints
from spice.pipeline import cluster
from spice.pipeline.execute import BY_NAME
from spice.presets import standard
from spice.settings import FeatureSettings, JointSettings, RunSettings
from stored import write_digits

DIGITS = 160
# The order of the store is that of reading; the other files contain times, or the holder of the lock.
NOT_COMPARED = {"store", "manifest.json", "report.html", ".lock", ".holder"}
TIMES = ("seconds", "cpu_seconds", "finished")


def settings(encoder: str) -> RunSettings:
    """Small stages, each long enough to be killed in."""
    refine, encoder = encoder == "refine", "lite0" if encoder == "refine" else encoder
    usual = standard(clusters=10, encoder=encoder, size=16 if encoder == "scratch" else 32, flip=False)
    small: dict[str, object] = {"heads": usual.heads.model_copy(update={"heads": 8})}
    if encoder == "scratch":
        small["features"] = FeatureSettings(
            method="simclr", network="resnet10", stem="plain", width=8, epochs=8, batch=32, momentum=None
        )
        small["joint"] = JointSettings(steps=24, labeled=16, unlabeled=16, ema=None)
        small["reliability"] = usual.reliability.model_copy(update={"threshold": 0.5})
    if refine:
        small["joint"] = JointSettings(steps=8, labeled=8, unlabeled=8, ema=None, checks=False)
        small["reliability"] = usual.reliability.model_copy(update={"threshold": 0.5})
    return usual.model_copy(update=small)


def start(images: Path, out: Path, encoder: str) -> int:
    """Start or resume a run in a forked process, in which torch is already imported."""
    child = os.fork()
    if child == 0:
        try:
            Checkpoints.due = lambda self: self.folder is not None  # type: ignore[method-assign]
            cluster(images, settings(encoder), out)
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 - a forked process must not return
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    return child


def finish(images: Path, out: Path, encoder: str) -> None:
    _, status = os.waitpid(start(images, out, encoder), 0)
    assert status == 0, f"{out} ended with {status}"


def steps(out: Path) -> dict[str, float]:
    """The finished steps in order, with their seconds."""
    # Not through the link `current`, behind which the model has a model.json of its own.
    places = [folder for part in ("steps", "results") for folder in (out / part).glob("*")]
    found = {name: next((f for folder in places if (f := folder / f"{name}.json").exists()), None) for name in BY_NAME}
    return {name: json.loads(record.read_text())["seconds"] for name, record in found.items() if record is not None}


def kill(images: Path, out: Path, encoder: str, *, after: set[str], delay: float) -> str:
    """Start a run, wait until the steps `after` are finished and `delay` seconds more, and kill it. Returns where."""
    child = start(images, out, encoder)
    while not after <= set(steps(out)) and os.waitpid(child, os.WNOHANG) == (0, 0):
        time.sleep(0.01)
    time.sleep(delay)
    try:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError):
        return "none: it had ended"
    return f"after {list(steps(out))[-1:] or ['nothing']}" if os.WIFSIGNALED(status) else "none: it had ended"


def digest(run: Path) -> dict[str, str]:
    """A hash of every file that is compared. Links are left out: their targets are compared."""
    files = {path.relative_to(run): path for path in run.rglob("*") if path.is_file() and not path.is_symlink()}
    return {
        str(name): hashlib.sha256(content(path, record=len(name.parts) == 3 and name.stem in BY_NAME)).hexdigest()
        for name, path in files.items()
        if not NOT_COMPARED & set(name.parts)
    }


def content(path: Path, *, record: bool) -> bytes:
    """The content of a file. Records of steps: without times, and without files that are not compared."""
    if not record or path.suffix != ".json":
        return path.read_bytes()
    kept = {key: value for key, value in json.loads(path.read_text()).items() if key not in TIMES}
    kept["files"] = {name: stamp for name, stamp in kept["files"].items() if name not in NOT_COMPARED}
    return json.dumps(kept).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--kills", type=int, default=3, help="of every run")
    parser.add_argument("--encoder", choices=["scratch", "lite0", "refine"], default="scratch")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments of the kills")
    parser.add_argument("--folder", type=Path, help="where to work (default: a temporary folder)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as temporary:
        found = kill_runs(Path(temporary), chosen.encoder, runs=chosen.runs, kills=chosen.kills, seed=chosen.seed)
    same = f"{found.same} of {chosen.runs} runs gave identical results, bit for bit"
    print(f"{same}; {found.landed} of {found.aimed} kills landed")
    sys.exit(0 if found.same == chosen.runs and found.landed else 1)


class Killed(NamedTuple):
    """The outcome of all killed runs."""

    same: int  # runs with a result that is identical bit for bit
    landed: int  # kills while the run was still running
    aimed: int


def kill_runs(folder: Path, encoder: str, *, runs: int, kills: int, seed: int, until: float = float("inf")) -> Killed:
    """Kill each of `runs` runs `kills` times and compare the results. No new run starts after the time `until`."""
    draw = random.Random(seed)
    images, whole = folder / "digits", folder / "whole"
    write_digits(images, DIGITS)
    finish(images, whole, encoder)
    took, expected = steps(whole), digest(whole)
    order, aims = list(took), cycle(took)
    same, hit = 0, Counter[str]()
    for number in range(runs):
        if time.monotonic() > until:
            break
        out = folder / str(number)
        for aim in sorted((next(aims) for _ in range(kills)), key=order.index):
            before = set(order[: order.index(aim)])
            where = kill(images, out, encoder, after=before, delay=draw.uniform(0.0, took[aim]))
            hit[where] += 1
            print(f"run {number}: aimed at {aim}, killed {where}", file=sys.stderr, flush=True)
        finish(images, out, encoder)
        found = digest(out)
        for name in sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name)):
            print(f"run {number}: {name} differs", file=sys.stderr, flush=True)
        same += found == expected and (out / "report.html").exists()
        shutil.rmtree(out)
    return Killed(same, hit.total() - hit["none: it had ended"], hit.total())


if __name__ == "__main__":
    main()
