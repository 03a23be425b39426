"""The peak memory of each command for N images.

python benchmarks/memory.py --images 2000 20000

Uses synthetic images of 8 pixels (pixels are read in batches, so their number does not matter) and synthetic features
of lite0's width, so that it takes minutes. Memory is anonymous memory, which the system cannot reclaim, sampled a
hundred times per second; mapped files do not count. `spice doctor --plan N` prints the bound.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from spice.runs.resource_needs import needs

WIDTH, CLUSTERS = 1280, 10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, nargs="+", default=[2000, 20_000])
    parser.add_argument("--width", type=int, default=WIDTH, help="width of the synthetic features")
    parser.add_argument("--only", nargs="+", default=[], help="commands by name, cluster first")
    options = parser.parse_args()
    print("| command | images | peak memory | promised |\n|---|---:|---:|---:|")
    broken = 0
    for count in options.images:
        with tempfile.TemporaryDirectory(prefix="spice-memory-") as scratch:
            promised = needs(count, clusters=CLUSTERS, width=options.width).memory
            for name, arguments in commands(Path(scratch), count, options.width).items():
                if options.only and name not in options.only:
                    continue
                peak = measured(arguments)
                broken += peak > promised
                mark = "" if peak <= promised else " BROKEN"
                print(f"| {name} | {count:,} | {peak / 1e9:.2f} GB | {promised / 1e9:.2f} GB{mark} |", flush=True)
    return 1 if broken else 0


def commands(folder: Path, count: int, width: int) -> dict[str, list[str]]:
    """All commands that read all images of a run, by name."""
    make(folder, count, width)
    few = folder / "few.npy"
    np.save(few, np.load(folder / "images.npy")[:40])
    model = str(folder / "few")
    small = ["--settings", str(folder / "small.toml")]
    run, images = str(folder / "run"), str(folder / "images.npy")
    encoder = ["--encoder", f"features:{folder / 'features.npz'}"]
    return {
        "cluster": ["cluster", images, "-k", str(CLUSTERS), "--size", "8", *encoder, "--out", run, *small],
        "resume": ["resume", run],
        "runs": ["runs", run],
        "verify": ["verify", run],
        "report": ["report", run],
        "why": ["why", run, "7"],
        "evaluate": ["evaluate", run, "--truth", str(folder / "truth.csv")],
        "export csv": ["export", run, str(folder / "out.csv"), "--as", "csv"],
        "figures": ["figures", run, "--out", str(folder / "figures")],
        # With the built-in encoder, on small images.
        "cluster few": ["cluster", str(few), "-k", "3", "--size", "16", "--out", model, *small],
        "predict": ["predict", model, images, "--out", str(folder / "predicted.csv")],
    }


def make(folder: Path, count: int, width: int) -> None:
    """Write distinct images, features in ten groups, and the groups as true labels."""
    draw = np.random.default_rng(0)
    truth = draw.integers(0, CLUSTERS, count)
    np.save(folder / "images.npy", draw.integers(0, 256, (count, 8, 8, 3), dtype=np.uint8))
    centers = draw.normal(size=(CLUSTERS, width)).astype(np.float32)
    features = centers[truth] + draw.normal(size=(count, width)).astype(np.float32)
    np.savez(folder / "features.npz", features=features, paths=np.array([str(row) for row in range(count)]))
    rows = "\n".join(f"{row},{truth[row]}" for row in range(count))
    # Memory does not depend on how long heads are trained.
    (folder / "small.toml").write_text("[heads]\nheads = 3\nepochs = 2\n")
    (folder / "truth.csv").write_text(f"path,label\n{rows}\n")


def measured(arguments: list[str]) -> int:
    """The peak anonymous memory of a command, in bytes."""
    with tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen([sys.executable, "-m", "spice", *arguments], stdout=said, stderr=subprocess.STDOUT)
        peak = 0
        while child.poll() is None:
            peak = max(peak, anonymous(child.pid))
            time.sleep(0.01)
        if child.returncode not in (0, 4):
            said.seek(0)
            sys.exit(f"{arguments[0]} ended with {child.returncode}: {said.read()[-2000:]}")
    return peak


def anonymous(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    line = next((line for line in status.splitlines() if line.startswith("RssAnon")), "RssAnon: 0 kB")
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    sys.exit(main())
