"""Damaged run folders, tampered models and manifests, links out of the folder, corrupted sources."""

import io
import json
import random
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load_file, save_file

from attacks.ground import COMMANDS, Attempt, Ground, check, copied, judged, readers, spice
from spice.data.decode import decode
from spice.data.problems import BadImageError
from spice.data.recognize import open_source
from spice.errors import UserError


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
    "another run's": None,
}


def damaged_files(ground: Ground) -> Iterator[Attempt]:
    """Every command on every damage of every file, in an order that covers all files and damages first."""
    files = [path.relative_to(ground.run) for path in sorted(ground.run.rglob("*")) if path.is_file()]
    files = [
        inside
        for inside in files
        if inside.parts[0] not in ("current", "model") and not (ground.run / inside).is_symlink()
    ]
    commands = (*COMMANDS, *readers(ground.run, ground))
    draw = random.Random(0)
    for turn in range(len(commands)):
        attempts = []
        for number, inside in enumerate(files):
            for place, damage in enumerate(DAMAGES):
                command = commands[(turn + number + 5 * place) % len(commands)]
                name = f"{inside} {damage}, {command}"
                attempts.append(Attempt("damaged files", name, _damage(ground, inside, damage, command)))
        draw.shuffle(attempts)
        yield from attempts


def _damage(ground: Ground, inside: Path, damage: str, command: str) -> Callable[[Path], str]:
    def attack(folder: Path) -> str:
        run = copied(ground, folder)
        path, change = run / inside, DAMAGES[damage]
        if change is not None:
            path.write_bytes(change(path.read_bytes()))
        elif damage == "removed":
            path.unlink()
        else:
            others = sorted(ground.other.rglob(inside.name))
            path.write_bytes(others[0].read_bytes() if others else b"")
        return check(command, ground, run, folder)

    return attack


VALUES: tuple[object, ...] = (None, -1, 0, 10**30, "", "../../outside", "/etc", [], {}, "\ud800", "x" * 100_000)


def hostile_content(ground: Ground) -> Iterator[Attempt]:
    """Hostile values in a manifest, a model or its weights."""
    (model,) = (path.relative_to(ground.run) for path in ground.run.glob("results/*/model"))
    for file in (Path("manifest.json"), model / "model.json"):
        for key in json.loads((ground.run / file).read_text()):
            for value in VALUES:

                def attack(folder: Path, file: Path = file, key: str = key, value: object = value) -> str:
                    run = copied(ground, folder)
                    content = json.loads((run / file).read_text())
                    (run / file).write_text(json.dumps({**content, key: value}))
                    if file.name == "manifest.json":
                        return check("export", ground, run, folder)
                    return judged(spice("predict", run / file.parent, ground.images), same=True)

                yield Attempt("hostile content", f"{file.name}: {key} = {str(value)[:20]!r}", attack)
    yield from _hostile_weights(ground, model)


def _hostile_weights(ground: Ground, model: Path) -> Iterator[Attempt]:
    def predicted(folder: Path, change: Callable[[Path], None], file: str, *, whole: bool = False) -> str:
        copy = Path(shutil.copytree(ground.run / model, folder / "model"))
        change(copy / file)
        content = json.loads((copy / "model.json").read_text())
        (copy / "model.json").write_text(json.dumps({**content, "hashes": {}}))
        return judged(spice("predict", copy, ground.images), same=whole)

    def tensor(path: Path, name: str, bad: str) -> None:
        state = load_file(path)
        value = state[name]
        made = {
            "nan": np.full(value.shape, np.nan, np.float32),
            "infinite": np.full(value.shape, np.inf, np.float32),
            "wide": np.zeros((*value.shape, 7), np.float32),
            "empty": np.zeros(0, np.float32),
            "text": np.zeros(value.shape, np.uint8),
            "huge": np.full(value.shape, -(2**62), np.int64),
        }[bad]
        save_file({**state, name: made}, path)

    headers = {
        "huge length": (2**60).to_bytes(8, "little"),
        "length beyond the file": (10**6).to_bytes(8, "little") + b"{",
        "no JSON": (4).to_bytes(8, "little") + b"\xff\xfe{{",
        "tensor beyond the file": (100).to_bytes(8, "little")
        + b'{"out.bias":{"dtype":"F32","shape":[999999999999],"data_offsets":[0,3999999999996]}}'.ljust(100),
        "nothing": b"",
    }
    for file in ("head.safetensors", "bank.safetensors"):
        for what, content in headers.items():

            def header(folder: Path, content: bytes = content, file: str = file) -> str:
                def change(path: Path) -> None:
                    path.write_bytes(content)

                return predicted(folder, change, file)

            yield Attempt("hostile content", f"{file}: {what}", header)
        for name in load_file(ground.run / model / file):
            for bad in ("nan", "infinite", "wide", "empty", "text", "huge"):

                def weights(folder: Path, file: str = file, name: str = name, bad: str = bad) -> str:
                    whole = (name, bad) == ("cluster", "text")  # all zeros, which is a valid model
                    return predicted(folder, lambda path: tensor(path, name, bad), file, whole=whole)

                yield Attempt("hostile content", f"{file}: {name} {bad}", weights)


def links(ground: Ground) -> Iterator[Attempt]:
    """Links out of the run folder, at every path that is written."""
    names = (
        ".lock",
        ".holder",
        "store",
        "steps",
        "results",
        "manifest.json",
        "labels.csv",
        "current",
        "model",
        "edits.json",
    )
    for name in names:
        for command in ("resume", "report", "runs", "name", "evaluate", "figures", "refine"):

            def attack(folder: Path, name: str = name, command: str = command) -> str:
                run, outside, place = copied(ground, folder), folder / "outside", folder / "run" / name
                if place.is_symlink() or place.is_file() or name.startswith(".") or not place.exists():
                    target = outside / "file"
                    outside.mkdir()
                    target.write_bytes(place.read_bytes() if place.is_file() else b"mine")
                    place.unlink(missing_ok=True)
                else:
                    target = Path(shutil.move(place, outside))
                place.symlink_to(target)
                before = _snapshot(outside)
                arguments: dict[str, tuple[str | Path, ...]] = {
                    "name": ("name", run, "0", "x"),
                    "refine": ("refine", run, "--settings", ground.images.parent / "joint.toml"),
                }
                if command in arguments:
                    outcome = judged(spice(*arguments[command]), same=True)
                else:
                    outcome = check(command, ground, run, folder)
                return outcome if _snapshot(outside) == before else "WROTE OUTSIDE"

            yield Attempt("links out of the folder", f"{name}, {command}", attack)


def _snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def corrupted_images(cases: int, seed: int) -> dict[str, int]:
    """The outcomes of decoding damaged image files of every format, in a separate process."""
    script = Path(__file__).resolve().parents[1] / "fuzz_decode.py"
    done = subprocess.run(
        [sys.executable, str(script), "--cases", str(cases), "--seed", str(seed)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        print(done.stderr[-2000:], file=sys.stderr)
        return {"TRACEBACK": 1}
    lines = [line.rsplit(maxsplit=1) for line in done.stdout.splitlines() if line.startswith("  ")]
    counts = {name.strip(): int(count.replace(",", "")) for name, count in lines}
    used = counts.pop("used", 0)
    return {"unharmed": used, "refused in one line": sum(counts.values())}


def corrupted_sources(ground: Ground) -> Iterator[Attempt]:  # noqa: C901 - one attack after the other
    """Archives, arrays and lists with bytes cut, flipped or overwritten, which are opened, listed and read."""
    whole = _sources(ground)
    draw = random.Random(1)
    for number in range(3000):
        ending = list(whole)[number % len(whole)]
        data = bytearray(whole[ending])
        for _ in range(draw.choice((1, 1, 2, 8))):
            kind, place = draw.randrange(4), draw.randrange(max(1, len(data)))
            if kind == 0 and data:
                data[place % len(data)] ^= 1 << draw.randrange(8)
            elif kind == 1:
                del data[place:]
            elif kind == 2:
                data[place : place + 8] = draw.choice((b"\xff" * 8, bytes(8), draw.randbytes(8)))
            else:
                del data[place : place + draw.randrange(64)]

        def attack(folder: Path, ending: str = ending, data: bytes = bytes(data)) -> str:
            (folder / f"source{ending}").write_bytes(data)
            try:
                source = open_source(folder / f"source{ending}")
                entries, _ = source.listing()
                for _, read in source.contents(entries[:40]):
                    try:
                        decode(read(), 16)
                    except (BadImageError, OSError):
                        continue
            except UserError:
                return "refused in one line"
            except Exception as error:  # noqa: BLE001 - any exception is a finding
                print(f"{ending}: {error!r}", file=sys.stderr)
                return "TRACEBACK"
            return "unharmed"

        yield Attempt("corrupted archives, arrays and lists", f"{ending} {number}", attack)


def _sources(ground: Ground) -> dict[str, bytes]:
    files = sorted(ground.images.glob("*.png"))[:4]
    made: dict[str, bytes] = {}
    for ending, mode in ((".tar", "w"), (".tar.gz", "w:gz"), (".tar.bz2", "w:bz2"), (".tar.xz", "w:xz")):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]  # one of the modes
            for file in files:
                archive.add(file, file.name)
        made[ending] = buffer.getvalue()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zipped:
        for file in files:
            zipped.write(file, file.name)
    made[".zip"] = buffer.getvalue()
    pixels = np.zeros((4, 8, 8, 3), np.uint8)
    for ending, save in ((".npy", np.save), (".npz", np.savez)):
        buffer = io.BytesIO()
        save(buffer, pixels)
        made[ending] = buffer.getvalue()
    text = "\n".join(map(str, files))
    made[".txt"], made[".csv"] = text.encode(), f"path\n{text}\n".encode()
    buffer = io.BytesIO()
    pq.write_table(pa.table({"path": list(map(str, files))}), buffer)
    made[".parquet"] = buffer.getvalue()
    return made
