"""What happens to damaged runs, hostile files, odd names and places that cannot be written?

python benchmarks/attack.py               # every file, every damage, every command: about 20 minutes
python benchmarks/attack.py --minutes 5   # a random part of them, the same number of every kind
python benchmarks/attack.py --quick       # the same in less than a minute

Prints a table. No attempt may end in a traceback or a hang, write outside the folder that was given, or change labels
without a word; the script ends with exit code 1 if one does.
"""

import argparse
import contextlib
import csv
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import numpy as np
from PIL import Image
from safetensors.numpy import load_file, save_file

from spice.cli import main as spice_main

PATIENCE = 60  # seconds until a command counts as hanging
FINE = ("unharmed", "refused in one line", "repaired")
BAD = ("TRACEBACK", "HANG", "CHANGED LABELS", "WROTE OUTSIDE")


class Ended(NamedTuple):
    """How a command ended."""

    code: int | None  # None: it hangs
    out: str
    err: str


class Attempt(NamedTuple):
    """One attack on one command."""

    kind: str
    name: str
    run: Callable[[Path], str]  # in an empty folder; returns the outcome


class Ground(NamedTuple):
    """A finished run, and what its commands answer when nothing is wrong."""

    run: Path
    images: Path
    labels: str
    predictions: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a random part, in less than a minute")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="a random part, in this time")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    outcomes: Counter[tuple[str, str]] = Counter()
    failures: list[str] = []
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="spice-attack-") as scratch:
        os.environ["SPICE_CACHE"] = str(Path(scratch) / "cache")
        ground = prepare(Path(scratch))
        attacks = (damaged_files, hostile_content, links, places, names)
        kinds = [shuffled(list(attack(ground)), options.seed) for attack in attacks]
        for attempt in filter(None, chain.from_iterable(zip_longest(*kinds))):
            if time.monotonic() - started > (35 if options.quick else 60 * options.minutes):
                break
            folder = Path(tempfile.mkdtemp(dir=scratch))
            outcome = attempt.run(folder)
            outcomes[attempt.kind, outcome] += 1
            if outcome not in FINE:
                failures.append(f"{attempt.kind}: {attempt.name}: {outcome}")
            shutil.rmtree(folder, ignore_errors=True)
    print(table(outcomes))
    print(f"\n{sum(outcomes.values())} attempts in {time.monotonic() - started:.0f} s")
    print("\n".join(failures))
    return 1 if failures else 0


def shuffled(attempts: list[Attempt], seed: int) -> list[Attempt]:
    random.Random(seed).shuffle(attempts)
    return attempts


def table(outcomes: Counter[tuple[str, str]]) -> str:
    shown = (*FINE, *BAD)
    lines = [f"| attack | attempts | {' | '.join(shown)} |", f"|---|{'---:|' * (len(shown) + 1)}"]
    for kind in dict.fromkeys(kind for kind, _ in outcomes):
        counts = [outcomes[kind, outcome] for outcome in shown]
        lines.append(f"| {kind} | {sum(counts)} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


def prepare(scratch: Path) -> Ground:
    images = scratch / "images"
    images.mkdir()
    noise = np.random.default_rng(0)
    for number in range(24):
        color = np.array([(200, 40, 40), (40, 60, 200), (40, 170, 60)][number % 3])
        pixels = np.clip(color + noise.integers(-30, 30, (32, 32, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(images / f"{number}.png")
    run = scratch / "images.spice"
    assert spice("cluster", images, "-k", "3", "--size", "32", "--out", run, "--preset", "quick").code == 0
    return Ground(run, images, (run / "labels.csv").read_text(), spice("predict", run, images).out)


def spice(*arguments: str | Path) -> Ended:
    """The command inside this process, which a second of importing torch per attempt would slow down tenfold."""
    out, err = io.StringIO(), io.StringIO()
    code: int | None = 0
    before = sys.argv
    sys.argv = ["spice", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), alarm():
            spice_main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    except TimeoutError:
        code = None
    except BaseException:  # noqa: BLE001 - whatever it is, it is what we look for
        code, _ = 1, err.write(f"Traceback: {traceback.format_exc()}")
    finally:
        sys.argv = before
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


def judged(ended: Ended, *, same: bool, repaired: bool = False) -> str:
    """The outcome of a command; `same`: whether what it answers is what it answered before the attack."""
    if ended.code is None:
        return "HANG"
    if "Traceback" in ended.err or ended.code == 1:
        return "TRACEBACK"
    if ended.code != 0:
        return "refused in one line"
    if not same:
        return "CHANGED LABELS"
    return "repaired" if repaired else "unharmed"


# What each command answers, and whether that is what it should be.
def check(command: str, ground: Ground, run: Path, folder: Path) -> str:
    if command == "export":
        ended = spice("export", run, folder / "out.csv", "--as", "csv")
        return judged(ended, same=ended.code != 0 or (folder / "out.csv").read_text() == ground.labels)
    if command == "predict":
        ended = spice("predict", run, ground.images)
        return judged(ended, same=ended.out == ground.predictions)
    if command == "resume":
        ended = spice("resume", run)
        after = spice("export", run, folder / "out.csv", "--as", "csv")
        whole = after.code == 0 and (folder / "out.csv").read_text() == ground.labels
        return judged(ended, same=whole and (run / "labels.csv").read_text() == ground.labels, repaired=True)
    arguments = {"why": ("why", run, "0.png"), "evaluate": ("evaluate", run, "--truth", ground.images.parent / "t.csv")}
    return judged(spice(*arguments.get(command, (command, run))), same=True)


COMMANDS = ("export", "predict", "resume", "why", "runs", "report", "verify", "settings", "figures")


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0x40]) + content[middle + 1 :] if content else b"x"


def noise(content: bytes) -> bytes:
    return random.Random(len(content)).randbytes(len(content))


DAMAGES: dict[str, Callable[[bytes], bytes] | None] = {
    "cut": cut,
    "flipped": flip,
    "emptied": lambda _: b"",
    "noise": noise,
    "removed": None,
}


def damaged_files(ground: Ground) -> Iterator[Attempt]:
    files = [path for path in sorted(ground.run.rglob("*")) if path.is_file() and not path.is_symlink()]
    for file in files:
        inside = file.relative_to(ground.run)
        if inside.parts[0] in ("current", "model") or "pictures" in inside.parts[:-2]:
            continue
        for damage, change in DAMAGES.items():
            for command in COMMANDS:

                def attack(
                    folder: Path,
                    inside: Path = inside,
                    change: Callable[[bytes], bytes] | None = change,
                    command: str = command,
                ) -> str:
                    run = Path(shutil.copytree(ground.run, folder / "run", symlinks=True))
                    path = run / inside
                    path.unlink() if change is None else path.write_bytes(change(path.read_bytes()))
                    return check(command, ground, run, folder)

                yield Attempt("damaged files", f"{inside} {damage}, {command}", attack)


def hostile_content(ground: Ground) -> Iterator[Attempt]:
    """Values that a stranger may have put into a manifest, a model or its weights."""
    (model,) = (path.relative_to(ground.run) for path in ground.run.glob("results/*/model"))
    about = model / "model.json"
    values: list[object] = [None, -1, 0, 10**30, "", "../../outside", "/etc", [], {}, "\ud800", "x" * 100_000]
    for file in (Path("manifest.json"), about):
        for key in json.loads((ground.run / file).read_text()):
            for value in values:

                def attack(folder: Path, file: Path = file, key: str = key, value: object = value) -> str:
                    run = Path(shutil.copytree(ground.run, folder / "run", symlinks=True))
                    content = json.loads((run / file).read_text())
                    (run / file).write_text(json.dumps({**content, key: value}))
                    if file.name == "manifest.json":
                        return check("export", ground, run, folder)
                    return judged(spice("predict", run / file.parent, ground.images), same=True)

                yield Attempt("hostile content", f"{file.name}: {key} = {str(value)[:20]!r}", attack)
    for bad in ("nan", "wide"):

        def weights(folder: Path, bad: str = bad) -> str:
            copy = Path(shutil.copytree(ground.run / model, folder / "model"))
            state = load_file(copy / "head.safetensors")
            made = np.zeros(7, np.float32) if bad == "wide" else np.full_like(state["out.bias"], np.nan)
            save_file({**state, "out.bias": made}, copy / "head.safetensors")
            content = json.loads((copy / "model.json").read_text())
            (copy / "model.json").write_text(json.dumps({**content, "hashes": {}}))
            return judged(spice("predict", copy, ground.images), same=False)

        yield Attempt("hostile content", f"head: {bad}", weights)


def links(ground: Ground) -> Iterator[Attempt]:
    """Links out of the run folder, in every place that is written."""
    for name in (".lock", ".holder", "store", "steps", "results", "manifest.json", "labels.csv", "current", "model"):
        for command in ("resume", "report", "runs"):

            def attack(folder: Path, name: str = name, command: str = command) -> str:
                run = Path(shutil.copytree(ground.run, folder / "run", symlinks=True))
                outside = folder / "outside"
                place = run / name
                is_file = place.is_file() or name.startswith(".")
                if place.is_symlink() or is_file:
                    target = outside / "file"
                    outside.mkdir()
                    target.write_bytes(place.read_bytes() if place.is_file() else b"mine")
                    place.unlink(missing_ok=True)
                else:
                    target = Path(shutil.move(place, outside))
                place.symlink_to(target)
                before = snapshot(outside)
                outcome = check(command, ground, run, folder)
                return outcome if snapshot(outside) == before else "WROTE OUTSIDE"

            yield Attempt("links out of the folder", f"{name}, {command}", attack)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def places(ground: Ground) -> Iterator[Attempt]:
    """Outputs to where nothing can be written: below a file, onto a folder, to a disk that is full."""
    for shape in ("csv", "parquet", "model", "onnx", "folders", "imagefolder", "labelstudio", "fiftyone"):
        for where in ("below a file", "full disk"):

            def attack(folder: Path, shape: str = shape, where: str = where) -> str:
                (folder / "file").touch()
                before = sorted(folder.rglob("*"))
                if where == "below a file":
                    ended = spice("export", ground.run, folder / "file" / "out", "--as", shape, "--copy")
                else:
                    ended = program("export", ground.run, folder / "out", "--as", shape, "--copy", largest=512)
                if ended.code == 0 and where == "full disk":  # small enough to fit
                    return "unharmed"
                left = sorted(folder.rglob("*")) != before
                return "WROTE OUTSIDE" if left else judged(ended, same=False)

            yield Attempt("outputs that cannot be written", f"{shape} {where}", attack)


def names(ground: Ground) -> Iterator[Attempt]:
    """Every command on images with hostile names, as text and in the plainest locale."""
    odd = ["café 中.png", "a\nb.png", "a\rb.png", "x" * 251 + ".png", "-k.png", "[bold].png", "<script>.png", "'\".png"]
    raw = [os.fsencode(name) for name in odd] + [b"caf\xe9.png"]

    def write(folder: Path) -> Path:
        source = folder / "odd"
        source.mkdir()
        for number, name in enumerate(raw):
            shutil.copy(ground.images / f"{number}.png", source / os.fsdecode(name))
        return source

    def plainest(folder: Path) -> str:
        source = write(folder)
        plain = {"LC_ALL": "C", "LANG": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        ended = program("predict", ground.run, source, environment=plain)
        rows = list(csv.DictReader(io.StringIO(ended.out, newline="")))
        return judged(ended, same={*odd, "caf\\xe9.png"} == {row["path"] for row in rows})

    def exported(folder: Path, shape: str) -> str:
        source = write(folder)
        first = spice("cluster", source, "-k", "2", "--size", "32", "--out", folder / "run", "--preset", "quick")
        if first.code not in (0, 4):
            return judged(first, same=False)
        ended = spice("export", folder / "run", folder / "out", "--as", shape, "--copy")
        count = sum(path.is_file() for path in (folder / "out").rglob("*"))
        return judged(ended, same=count == len(raw) or shape not in ("folders", "imagefolder"))

    def refused(folder: Path) -> str:
        source = Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9"))
        write(folder).rename(source)
        return judged(spice("cluster", source, "-k", "2", "--out", folder / "run"), same=False)

    yield Attempt("hostile names", "predict in the locale C", plainest)
    yield Attempt("hostile names", "a folder that is not UTF-8", refused)
    for shape in ("folders", "imagefolder", "labelstudio", "fiftyone"):
        yield Attempt("hostile names", f"export as {shape}", partial(exported, shape=shape))


def program(*arguments: str | Path, environment: dict[str, str] | None = None, largest: int | None = None) -> Ended:
    """The command as a process of its own; its files can grow to `largest` bytes."""
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({largest}, {largest})); " if largest else ""
    code = f"{limit}from spice.cli import main; main()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    try:
        done = subprocess.run(
            command, env=os.environ | (environment or {}), capture_output=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return Ended(None, "", "")
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace"))


if __name__ == "__main__":
    sys.exit(main())
