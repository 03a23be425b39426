"""Every command as a separate process: plain, with odd standard streams, as a read-only user, and stopped."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from attacks.ground import PATIENCE, ROOT, Attempt, Ended, Ground, copied, inside, judged, program, readers, writers

KIND = "processes of their own"
STREAMS = {
    "plain": '"$@"',
    "standard input closed": '"$@" <&-',
    "standard output closed": '"$@" >&-',
    "standard output full": '"$@" >/dev/full',
    "| head -1": '"$@" | head -1; code=${PIPESTATUS[0]}; exit $((code == 1 ? 0 : code))',  # 1: nothing reads the rest
    "| true": '"$@" | true; code=${PIPESTATUS[0]}; exit $((code == 1 ? 0 : code))',
}
STOPPED = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from spice.__main__ import main; main()"
)


def processes(ground: Ground) -> Iterator[Attempt]:
    """Every command in every situation."""
    names = list(commands(ground.run, ground, ground.run))
    for situation, shell in STREAMS.items():
        for name in names:
            yield Attempt(KIND, f"{name}, {situation}", partial(_with_streams, ground, name, shell))
    for name in names:
        if ROOT:
            yield Attempt(KIND, f"{name}, a user who may only read", partial(_reading, ground, name))
        for number in (signal.SIGINT, signal.SIGTERM):
            yield Attempt(KIND, f"{name}, {number.name}", partial(_stopped, ground, name, number))


def commands(run: Path, ground: Ground, out: Path) -> dict[str, tuple[str | Path, ...]]:
    """All commands but those that train for minutes (`demo`, `bench`) or run until they are stopped (`open`)."""
    others: dict[str, tuple[str | Path, ...]] = {
        "--help": ("--help",),
        "doctor": ("doctor",),
        "doctor --plan": ("doctor", "--plan", "1000"),
        "datasets": ("datasets",),
        "bench": ("bench",),
        "cluster --plan": ("cluster", ground.images, "--plan", "--out", out / "new"),
        "redo": ("redo", run),
        "groups --json": ("groups", run, "--json"),
        "predict": ("predict", run, ground.images),
    }
    return {**readers(run, ground), **writers(run, ground, out), **others}


def _with_streams(ground: Ground, name: str, shell: str, folder: Path) -> str:
    arguments = commands(copied(ground, folder), ground, folder)[name]
    return _judged(program(*arguments, before=("bash", "-c", shell, "bash")))


def _reading(ground: Ground, name: str, folder: Path) -> str:
    """As root without the right to ignore permissions, as for any other user."""
    run = copied(ground, folder)
    subprocess.run(["chmod", "-R", "a-w", str(run)], check=True)
    arguments = commands(run, ground, folder)[name]
    return _judged(program(*arguments, before=("setpriv", "--bounding-set", "-all", "--inh-caps", "-all")))


def _stopped(ground: Ground, name: str, number: signal.Signals, folder: Path) -> str:
    """Stopped at a random moment; afterwards, the run must be intact or resumable."""
    run = copied(ground, folder)
    arguments = map(str, commands(run, ground, folder)[name])
    started = subprocess.Popen(
        [sys.executable, "-c", STOPPED, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    _wait_for_work(started, random.uniform(0.2, 4.0))
    started.send_signal(number)
    try:
        out, err = started.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        started.kill()
        started.communicate()
        return "HANG"
    ended_by_it = started.returncode == -number
    ended = Ended(130 if ended_by_it else started.returncode, out.decode(), err.decode(errors="replace"))
    outcome = _judged(ended)
    if outcome == "TRACEBACK" or inside("verify", run).code == 0:
        return outcome
    return "unharmed" if inside("resume", run).code in (0, 4) and inside("verify", run).code == 0 else "NOT RESUMED"


def _wait_for_work(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait until the process has used this many processor seconds, has ended, or is idle for long."""
    until, tick = time.monotonic() + 5 * seconds, os.sysconf("SC_CLK_TCK")
    while process.poll() is None and time.monotonic() < until:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        if (int(fields[11]) + int(fields[12])) / tick > seconds:
            return
        time.sleep(0.01)


def _judged(ended: Ended) -> str:
    outcome = judged(ended, same=True)
    if outcome == "TRACEBACK":
        print(ended.code, ended.err[-1500:], file=sys.stderr)
    return outcome
