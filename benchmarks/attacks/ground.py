"""The basis of all attacks: a finished run with its correct outputs, and how to run commands and judge them."""

import contextlib
import io
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import numpy as np
from PIL import Image

from spice.cli import main as spice_main

PATIENCE = 300  # seconds until a command counts as hanging, on a busy machine too
FINE = ("unharmed", "refused in one line", "repaired")
BAD = ("TRACEBACK", "HANG", "CHANGED LABELS", "WROTE OUTSIDE", "NOT RESUMED")
ROOT = os.name == "posix" and os.geteuid() == 0
DOCUMENTED = (0, 2, 3, 4, 130)  # exit codes, as in docs/troubleshooting.md
CRASHES = ("Traceback", "terminate called", "Exception ignored", "Fatal Python error")
# One in this many commands runs as a separate process, which takes 2 to 5 seconds: an attacked command can still abort
# at its very end, when Python ends threads and closes files.
OWN_PROCESS = 6


class Ended(NamedTuple):
    """How a command ended."""

    code: int | None  # None: it hung
    out: str
    err: str


class Attempt(NamedTuple):
    """One attack on one command."""

    kind: str
    name: str
    run: Callable[[Path], str]  # in an empty folder; returns the outcome


class Ground(NamedTuple):
    """A finished run, and the outputs of its commands without an attack."""

    run: Path
    other: Path  # another run of the same images, with another seed
    images: Path
    labels: str  # as exported
    predictions: str


CLUSTER = ("-k", "3", "--size", "32", "--preset", "quick")


def prepare(scratch: Path) -> Ground:
    images = scratch / "images"
    images.mkdir()
    draw = np.random.default_rng(0)
    for number in range(24):
        color = np.array([(200, 40, 40), (40, 60, 200), (40, 170, 60)][number % 3])
        pixels = np.clip(color + draw.integers(-30, 30, (32, 32, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(images / f"{number}.png")
    (scratch / "truth.csv").write_text("path,label\n" + "".join(f"{number}.png,{number % 3}\n" for number in range(24)))
    (scratch / "joint.toml").write_text("[joint]\nsteps = 2\nlabeled = 4\nunlabeled = 4\n")
    run, other = scratch / "images.spice", scratch / "other.spice"
    ended = inside("cluster", images, *CLUSTER, "--out", run)
    assert ended.code == 0, ended
    assert inside("cluster", images, "-k", "2", *CLUSTER[2:], "--seed", "5", "--out", other).code == 0
    inside("export", run, scratch / "labels.csv", "--as", "csv")
    return Ground(run, other, images, (scratch / "labels.csv").read_text(), inside("predict", run, images).out)


def copied(ground: Ground, folder: Path) -> Path:
    return Path(shutil.copytree(ground.run, folder / "run", symlinks=True))


def spice(*arguments: str | Path, largest: int | None = None) -> Ended:
    """Run the command in this process or, for a random part of all calls, as a separate process.

    Args:
        largest: largest size of a file in bytes, as on a full disk.
    """
    has_null = any("\0" in str(argument) for argument in arguments)  # which no argument of a process can have
    if random.randrange(OWN_PROCESS) or has_null:
        return inside(*arguments, largest=largest)
    return program(*arguments, limits={} if largest is None else {"RLIMIT_FSIZE": largest})


def inside(*arguments: str | Path, largest: int | None = None) -> Ended:
    """Run the command in this process: importing torch for every attempt would make it ten times as slow.

    Args:
        largest: largest size of a file in bytes, as on a full disk.
    """
    out, err = io.StringIO(), io.StringIO()
    code: int | None = 0
    before, limit = sys.argv, resource.getrlimit(resource.RLIMIT_FSIZE)
    sys.argv = ["spice", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), alarm():
            if largest is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (largest, limit[1]))
            spice_main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    except TimeoutError:
        code = None
    except BaseException:  # noqa: BLE001 - any exception is a finding
        code, _ = 1, err.write(f"Traceback: {traceback.format_exc()}")
    finally:
        sys.argv = before
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    return Ended(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def alarm() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the system's signature
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)


def program(
    *arguments: str | Path,
    environment: dict[str, str] | None = None,
    limits: dict[str, int] | None = None,
    before: tuple[str, ...] = (),
) -> Ended:
    """Run the command as a separate process.

    Args:
        limits: system limits, such as RLIMIT_AS.
        before: another program that starts the command.
    """
    lines = [f"resource.setrlimit(resource.{name}, ({size}, {size}))" for name, size in (limits or {}).items()]
    code = "; ".join(["import resource", *lines, "from spice.__main__ import main", "main()"])
    started = [*before, sys.executable, "-c", code, *map(str, arguments)]
    try:
        done = subprocess.run(
            started, env=os.environ | (environment or {}), capture_output=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return Ended(None, "", "")
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace"))


def judged(ended: Ended, *, same: bool, repaired: bool = False) -> str:
    """The outcome of a command; `same`: whether its output is that without an attack."""
    if ended.code is None:
        return "HANG"
    if ended.code not in DOCUMENTED or any(crash in ended.err for crash in CRASHES):
        return "TRACEBACK"
    if ended.code not in (0, 4):
        return "refused in one line"
    if not same:
        return "CHANGED LABELS"
    return "repaired" if repaired else "unharmed"


def check(name: str, ground: Ground, run: Path, folder: Path) -> str:
    """Run one command on an attacked run, and compare its output."""
    if name == "export":
        ended = spice("export", run, folder / "out.csv", "--as", "csv")
        return judged(ended, same=ended.code != 0 or (folder / "out.csv").read_text() == ground.labels)
    if name == "predict":
        ended = spice("predict", run, ground.images)
        return judged(ended, same=ended.out == ground.predictions)
    if name == "resume":
        ended = spice("resume", run)
        after = inside("export", run, folder / "out.csv", "--as", "csv")
        whole = after.code == 0 and (folder / "out.csv").read_text() == ground.labels
        whole = whole and (run / "labels.csv").read_bytes() == (ground.run / "labels.csv").read_bytes()
        return judged(ended, same=whole, repaired=True)
    return judged(spice(*readers(run, ground)[name]), same=True)


COMMANDS = ("export", "predict", "resume")


def readers(run: Path, ground: Ground) -> dict[str, tuple[str | Path, ...]]:
    """Commands that read a finished run."""
    return {
        "why": ("why", run, "0.png"),
        "runs": ("runs", run),
        "report": ("report", run),
        "verify": ("verify", run),
        "settings": ("settings", run),
        "figures": ("figures", run),
        "groups": ("groups", run),
        "outliers": ("outliers", run),
        "duplicates": ("duplicates", run),
        "check": ("check", run, "--summary"),
        "evaluate": ("evaluate", run, "--truth", ground.images.parent / "truth.csv"),
    }


def writers(run: Path, ground: Ground, out: Path) -> dict[str, tuple[str | Path, ...]]:
    """Commands that write, into a run or elsewhere."""
    joint = ground.images.parent / "joint.toml"
    exports = {
        f"export {shape}": ("export", run, out / f"exported.{shape}", "--as", shape, "--copy")
        for shape in (
            "csv",
            "parquet",
            "model",
            "onnx",
            "folders",
            "imagefolder",
            "labelstudio",
            "fiftyone",
            "cvat",
            "xmp",
        )
    }
    return {
        "cluster": ("cluster", ground.images, *CLUSTER, "--out", out / "new"),
        "resume": ("resume", run),
        "refine": ("refine", run, "--settings", joint),
        "predict csv": ("predict", run, ground.images, "--out", out / "predicted.csv"),
        "predict parquet": ("predict", run, ground.images, "--out", out / "predicted.parquet"),
        "watch": ("watch", ground.images, "--run", run, "--once"),
        "report": ("report", run),
        "figures": ("figures", run, "--out", out / "figures"),
        "evaluate": ("evaluate", run, "--truth", ground.images.parent / "truth.csv"),
        "name": ("name", run, "0", "red ones"),
        "merge": ("merge", run, "0", "1"),
        "split": ("split", run, "0"),
        "move": ("move", run, "1", "0.png"),
        "set-aside": ("set-aside", run, "0"),
        "undo": ("undo", run),
        "learn": ("learn", run, "--yes"),
        "check": ("check", run, "--images", "3"),
        **exports,
    }


def shuffled(attempts: list[Attempt], seed: int) -> list[Attempt]:
    random.Random(seed).shuffle(attempts)
    return attempts
