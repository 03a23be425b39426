"""For `benchmarks/scale.py`: is the result the same if a machine is lost or the command is killed at any moment?"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from spice.engine.run import Run
from spice.models.encoders import load_encoder
from spice.pipeline.steps.scan import read_embedded
from spice.pipeline.work import Inputs
from spice.runs import Result, open_result
from stored import write_digits

SIZE = 96  # pixels, at which digits take some seconds to embed
SETTINGS = "[heads]\nheads = 3\nepochs = 3\n"


def lost_nodes(moments: int, count: int, phase: float = 0.5) -> int:
    """Embed digits on two nodes, and remove one at evenly spaced moments. Returns how often the result was wrong."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    # By default, Ray takes half a minute to notice that a node is gone.
    quick = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 1000}
    first = {"num_cpus": 1, "include_dashboard": False, "_system_config": quick}
    nodes = Cluster(initialize_head=True, head_node_args=first)
    wrong, lost = 0, 0
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        write_digits(place / "digits", count)
        try:
            expected, whole = _embedded(place, "whole", nodes, None)
            for number in range(moments):
                wait = whole * (number + phase) / moments
                found, took = _embedded(place, str(number), nodes, wait)
                same = _same(found, expected)
                wrong, lost = wrong + (not same), lost + (took > wait)
                print(f"lost after {wait:.1f} s of {took:.1f}: {'same' if same else 'DIFFERENT'}", flush=True)
        finally:
            ray.shutdown()
            nodes.shutdown()
    print(f"{moments - wrong} of {moments} gave the same features of {count:,} images; {lost} were lost on the way")
    return wrong


def _embedded(place: Path, name: str, nodes: Any, wait: float | None) -> tuple[Inputs, float]:
    """All images, embedded by two nodes of which one is removed after `wait` seconds, and the seconds it took."""
    second = nodes.add_node(num_cpus=1)
    loss = threading.Timer(wait or 0.0, lambda: nodes.remove_node(second, allow_graceful=False))
    started = time.monotonic()
    if wait is not None:
        loss.start()
    encoder = load_encoder("lite0", size=SIZE)
    found = read_embedded(str(place / "digits"), place / name, encoder=encoder, address=nodes.address, run=Run())
    took = time.monotonic() - started
    if wait is None:
        loss.function()
    else:
        loss.join()
    nodes.wait_for_nodes()  # until Ray knows that one is lost
    return found, took


def _same(found: Inputs, expected: Inputs) -> bool:
    """Whether the images are the same, with identical features."""
    assert found.embedded is not None and expected.embedded is not None  # noqa: PT018
    rows = np.arange(len(expected.collection))
    if found.collection.paths != expected.collection.paths:
        return False
    from torch import from_numpy

    return bool((found.embedded.take(from_numpy(rows)) == expected.embedded.take(from_numpy(rows))).all())


def killed_commands(engine: str, kills: int, count: int, seed: int = 0) -> int:
    """Kill `spice cluster` (kill -9) in each of its phases, and resume it. Returns how many runs gave other labels."""
    draw, wrong, landed = random.Random(seed), 0, 0
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        write_digits(place / "digits", count)
        (place / "small.toml").write_text(SETTINGS)
        whole = _command(place, "whole", engine)
        reading = _wait_for(whole, place / "whole", steps=1)
        assert whole.wait() == 0, "the command failed without a kill"
        expected, steps = open_result(place / "whole"), len(_records(place / "whole"))
        for number in range(kills):
            out, phase = place / str(number), number % (steps + 1)
            child = _command(place, out.name, engine)
            if phase == 0:
                time.sleep(reading * draw.random())
            else:  # when `phase` steps are finished, or a moment later
                _wait_for(child, out, steps=phase)
                time.sleep(draw.choice((0.0, 0.3, 1.0)))
            child.send_signal(signal.SIGKILL)
            hit = child.wait() == -signal.SIGKILL
            moment = _reached(out) if hit else "too late"
            finish = ["resume", str(out)] if (out / "manifest.json").exists() else None
            again = _spice(finish) if finish else _command(place, out.name, engine)
            same = again.wait() == 0 and _same_labels(open_result(out), expected)
            wrong, landed = wrong + (not same), landed + hit
            print(f"{engine}: killed {moment}: {'same' if same else 'DIFFERENT'}", flush=True)
            shutil.rmtree(out)
    print(f"{engine}: {kills - wrong} of {kills} gave the same labels of {count:,} images; {landed} kills landed")
    return wrong


def _wait_for(child: "subprocess.Popen[bytes]", out: Path, *, steps: int) -> float:
    """Wait until this many steps are finished or the command ends. Returns the seconds it took."""
    started = time.monotonic()
    while child.poll() is None and len(_records(out)) < steps:
        time.sleep(0.02)
    return time.monotonic() - started


def _records(out: Path) -> list[Path]:
    """The records of finished steps, the latest last."""
    found = (*out.glob("steps/*/*.json"), *out.glob("results/*/*.json"))
    return sorted(found, key=lambda path: path.stat().st_mtime)


def _reached(out: Path) -> str:
    """How far a killed run got."""
    if not (out / "manifest.json").exists():
        return "before it made its folder"
    records = _records(out)
    return f"after {records[-1].stem}, with {len(records)} steps finished" if records else "while reading"


def _command(place: Path, name: str, engine: str) -> "subprocess.Popen[bytes]":
    arguments = ["cluster", str(place / "digits"), "-k", "10", "--size", str(SIZE), "--no-open", "--engine", engine]
    return _spice([*arguments, "--settings", str(place / "small.toml"), "--out", str(place / name)])


def _spice(arguments: list[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "spice", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def _same_labels(found: Result, expected: Result) -> bool:
    return found.labels.path == expected.labels.path and all(
        np.array_equal(getattr(found.labels, name), getattr(expected.labels, name))
        for name in ("cluster", "chance", "reliability", "prototype_rank")
    )
