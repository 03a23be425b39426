"""Unwritable places, full disks, sources that change or vanish, two processes at once, and little memory."""

import contextlib
import csv
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import typer

from attacks.ground import (
    CLUSTER,
    ROOT,
    Attempt,
    Ended,
    Ground,
    copied,
    inside,
    judged,
    program,
    readers,
    spice,
    writers,
)
from spice.cli import app

SIZES = (0, 60, 400, 1500, 6000, 20_000, 60_000, 150_000, 400_000, 1_000_000, 4_000_000)
EDITS = ("merge", "split", "move", "set-aside", "undo")  # saved before anything else is written
FIRST = {"undo": ("move", "1", "0.png"), "learn": ("move", "1", "0.png"), "export xmp": ("name", "1", "red")}


def _labels_after(run: Path, folder: Path) -> str:
    (folder / "after.csv").unlink(missing_ok=True)
    inside("export", run, folder / "after.csv", "--as", "csv")
    return (folder / "after.csv").read_text() if (folder / "after.csv").exists() else ""


def full_disk(ground: Ground) -> Iterator[Attempt]:
    """Every command that writes, with a limit on the size of files; then again without it."""
    for name in writers(ground.run, ground, ground.run):
        for size in SIZES:

            def attack(folder: Path, name: str = name, size: int = size) -> str:
                run, out = copied(ground, folder), folder / "out"
                out.mkdir()
                if name == "resume":  # with something left to do
                    for result in run.glob("results/*"):
                        shutil.rmtree(result)
                if name in FIRST:
                    command, *rest = FIRST[name]
                    inside(command, run, *rest)
                arguments = writers(run, ground, out)[name]
                outcome = judged(spice(*arguments, largest=size), same=True)
                again = spice("resume", run) if name in EDITS else spice(*arguments)
                once = name.startswith(("export", "figures", "learn", "check"))
                if once and outcome == "unharmed":
                    again = Ended(0, "", "")  # it is finished and not repeated
                if outcome in ("unharmed", "refused in one line") and again.code not in (0, 4):
                    return "NOT RESUMED"
                made = out / "new" if name == "cluster" else run
                changed = name in (*EDITS, "name", "learn", "check", "refine", "export xmp")
                if not changed and _labels_after(made, folder) != ground.labels:
                    return "CHANGED LABELS"
                return outcome

            yield Attempt("full disk, a limit on files", f"{name}, {size} bytes", attack)


@contextlib.contextmanager
def _small_disk(folder: Path, size: int) -> Iterator[Path]:
    place = folder / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def full_real_disk(ground: Ground) -> Iterator[Attempt]:
    """A run on a small disk (only root can mount one), which is copied to a larger one and resumed there."""
    for size in (16, 64, 128, 256, 400, 600, 800, 1000, 1300, 1600, 2000, 3000, 5000) if ROOT else ():

        def attack(folder: Path, size: int = size) -> str:
            with _small_disk(folder, size * 1024) as disk:
                ended = program("cluster", ground.images, *CLUSTER, "--out", disk / "run")
                outcome = judged(ended, same=True)
                if outcome == "TRACEBACK":
                    print(ended.err[-1500:], file=sys.stderr)
                if (disk / "run").exists():
                    shutil.copytree(disk / "run", folder / "run", symlinks=True)
            if spice("cluster", ground.images, *CLUSTER, "--out", folder / "run").code != 0:
                return "NOT RESUMED"
            return outcome if _labels_after(folder / "run", folder) == ground.labels else "CHANGED LABELS"

        yield Attempt("full disk, a real one", f"{size} kB", attack)


def unwritable(ground: Ground) -> Iterator[Attempt]:
    """Every command that writes: below a file, and on a read-only disk."""
    for name in writers(ground.run, ground, ground.run):

        def below_a_file(folder: Path, name: str = name) -> str:
            (folder / "file").touch()
            run = copied(ground, folder)
            before = sorted(folder.rglob("*"))
            ended = spice(*writers(run, ground, folder / "file")[name])
            elsewhere = name.startswith(("export", "predict", "cluster", "figures"))
            left = elsewhere and sorted(folder.rglob("*")) != before
            return "WROTE OUTSIDE" if left else judged(ended, same=True)

        def read_only(folder: Path, name: str = name) -> str:
            with _small_disk(folder, 64 << 20) as disk:
                run = copied(ground, disk)
                subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
                ended = spice(*writers(run, ground, disk)[name])
                if _labels_after(run, folder) != ground.labels:
                    return "CHANGED LABELS"
            return judged(ended, same=True)

        yield Attempt("places that cannot be written", f"{name} below a file", below_a_file)
        if ROOT:
            yield Attempt("places that cannot be written", f"{name}, read-only", read_only)
    for name in (*readers(ground.run, ground), "export"):

        def reading(folder: Path, name: str = name) -> str:
            with _small_disk(folder, 64 << 20) as disk:
                run = copied(ground, disk)
                subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
                commands = readers(run, ground) | {"export": ("export", run, folder / "a.csv", "--as", "csv")}
                return judged(spice(*commands[name]), same=True)

        if ROOT:
            yield Attempt("places that cannot be written", f"{name} of a run on a read-only disk", reading)


def sources(ground: Ground) -> Iterator[Attempt]:  # noqa: C901 - one attack after the other
    """Images that change or vanish after the run."""

    def vanish(images: Path) -> None:
        shutil.rmtree(images)

    def one_gone(images: Path) -> None:
        (images / "3.png").unlink()

    def other_content(images: Path) -> None:
        shutil.copy(images / "4.png", images / "3.png")

    def emptied(images: Path) -> None:
        (images / "3.png").write_bytes(b"")

    def cut(images: Path) -> None:
        (images / "3.png").write_bytes((images / "3.png").read_bytes()[:200])

    def file(images: Path) -> None:
        shutil.rmtree(images)
        images.touch()

    def loop(images: Path) -> None:
        (images / "3.png").unlink()
        (images / "3.png").symlink_to("3.png")

    def pipe(images: Path) -> None:
        (images / "3.png").unlink()
        os.mkfifo(images / "3.png")

    for change in (vanish, one_gone, other_content, emptied, cut, file, loop, pipe):
        for name in (
            "resume",
            "cluster",
            "refine",
            "export folders",
            "export labelstudio",
            "predict csv",
            "report",
            "why",
            "check",
        ):

            def attack(folder: Path, change: object = change, name: str = name) -> str:
                run, images = copied(ground, folder), Path(shutil.copytree(ground.images, folder / "images"))
                manifest = run / "manifest.json"
                manifest.write_text(manifest.read_text().replace(str(ground.images), str(images)))
                change(images)  # type: ignore[operator]
                commands = writers(run, ground, folder) | readers(run, ground)
                if name == "cluster":
                    ended = spice("cluster", images, *CLUSTER, "--out", run)
                elif name == "predict csv":
                    ended = spice("predict", run, images, "--out", folder / "predicted.csv")
                else:
                    ended = spice(*commands[name])
                same = name == "refine" or _labels_after(run, folder) == ground.labels
                return judged(ended, same=same)

            yield Attempt("changed and vanished sources", f"{change.__name__}, {name}", attack)


HOLD = """
import sys, time
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


def two_processes(ground: Ground) -> Iterator[Attempt]:
    """Commands on a run that another process has locked, and on one that another process replaces."""
    for name in {**readers(ground.run, ground), **writers(ground.run, ground, ground.run)}:

        def held(folder: Path, name: str = name) -> str:
            run = copied(ground, folder)
            holder = subprocess.Popen([sys.executable, "-c", HOLD, str(run / ".lock")], stdout=subprocess.PIPE)
            try:
                assert holder.stdout is not None
                holder.stdout.readline()
                commands = writers(run, ground, folder) | readers(run, ground)
                ended = spice(*commands[name])
            finally:
                holder.kill()
                holder.wait()
                assert holder.stdout is not None
                holder.stdout.close()
            edited = name in ("name", "merge", "split", "move", "set-aside", "undo", "learn")
            return judged(ended, same=edited or _labels_after(run, folder) == ground.labels)

        yield Attempt("two processes", f"{name} while the run is held", held)

    def replaced(folder: Path, name: str) -> str:
        run = copied(ground, folder)
        code = "from spice.__main__ import main; main()"
        other = subprocess.Popen(
            [sys.executable, "-c", code, "cluster", str(ground.images), "-k", "2", *CLUSTER[2:], "--out", str(run)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        outcomes = []
        number = 0
        while other.poll() is None or number == 0:
            number += 1
            (folder / f"out{number}").mkdir()
            commands = writers(run, ground, folder / f"out{number}") | readers(run, ground)
            outcomes.append(judged(spice(*commands[name]), same=True))
        worse = [outcome for outcome in outcomes if outcome in ("TRACEBACK", "HANG")]
        return worse[0] if worse else outcomes[-1]

    for name in ("report", "why", "export csv", "evaluate", "groups", "name"):
        yield Attempt("two processes", f"{name} while another result is made", partial(replaced, name=name))


def little_memory(ground: Ground) -> Iterator[Attempt]:
    """Every command with 2 or 3 GB of address space, with 512 MB of memory, and with about the least that it needs."""
    for limits in (
        {"RLIMIT_AS": 3 << 30},
        {"RLIMIT_AS": 2 << 30},
        {"RLIMIT_DATA": 512 << 20},
        *({"RLIMIT_DATA": size << 20} for size in (1100, 1145, 1160, 1180, 1200, 1250, 1300, 1400)),
    ):
        for name in {**readers(ground.run, ground), **writers(ground.run, ground, ground.run)}:

            def attack(folder: Path, limits: dict[str, int] = limits, name: str = name) -> str:
                run = copied(ground, folder)
                if name in FIRST:
                    command, *rest = FIRST[name]
                    inside(command, run, *rest)
                commands = writers(run, ground, folder) | readers(run, ground)
                ended = program(*commands[name], limits=limits)
                if judged(ended, same=True) in ("TRACEBACK", "HANG"):
                    print(name, limits, ended.err[-600:], file=sys.stderr)
                return judged(ended, same=True)

            yield Attempt("little memory", f"{name} {limits}", attack)


PLAIN = {"LC_ALL": "C", "LANG": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
ODD = [
    "café 中.png",
    "a\nb.png",
    "a\rb.png",
    "x" * 251 + ".png",
    "-k.png",
    "[bold].png",
    "<script>.png",
    "'\".png",
    "=1+1.png",
]


def names(ground: Ground) -> Iterator[Attempt]:  # noqa: C901 - one attack after the other
    """Every command on images with hostile names, also in the locale C."""
    raw = [os.fsencode(name) for name in ODD] + [b"caf\xe9.png"]

    def write(folder: Path) -> Path:
        source = folder / "odd"
        source.mkdir()
        for number, name in enumerate(raw):
            shutil.copy(ground.images / f"{number}.png", source / os.fsdecode(name))
        return source

    def predicted(folder: Path) -> str:
        ended = program("predict", ground.run, write(folder), environment=PLAIN)
        rows = list(csv.DictReader(io.StringIO(ended.out, newline="")))
        return judged(ended, same={*ODD, "caf\\xe9.png"} == {row["path"] for row in rows})

    def clustered(folder: Path) -> Ended:
        return inside("cluster", write(folder), "-k", "2", *CLUSTER[2:], "--out", folder / "run")

    def exported(folder: Path, shape: str) -> str:
        first = clustered(folder)
        if first.code not in (0, 4):
            return judged(first, same=False)
        ended = spice("export", folder / "run", folder / "out", "--as", shape, "--copy")
        count = sum(path.is_file() and path.name != "metadata.csv" for path in (folder / "out").rglob("*"))
        return judged(ended, same=count == len(raw) or shape not in ("folders", "imagefolder"))

    def in_locale_c(folder: Path, name: str) -> str:
        clustered(folder)
        commands = writers(folder / "run", ground, folder) | readers(folder / "run", ground)
        arguments = {"why": ("why", folder / "run", ODD[0]), "name": ("name", folder / "run", "0", "日本")}
        return judged(program(*arguments.get(name, commands[name]), environment=PLAIN), same=True)

    def renamed(folder: Path, text: str) -> str:
        run = copied(ground, folder)
        first = spice("name", run, "0", text)
        outcomes = [judged(first, same=True)]
        for name, arguments in (writers(run, ground, folder) | readers(run, ground)).items():
            if name in ("groups", "why", "export csv", "export folders", "report", "export labelstudio"):
                outcomes.append(judged(spice(*arguments), same=True))
        outside = [
            path
            for path in folder.iterdir()
            if path.name not in ("run", *(f"exported.{shape}" for shape in ("csv", "folders", "labelstudio")))
        ]
        if outside:
            return "WROTE OUTSIDE"
        return next((outcome for outcome in outcomes if outcome == "TRACEBACK"), outcomes[0])

    def refused(folder: Path) -> str:
        source = Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9"))
        write(folder).rename(source)
        return judged(spice("cluster", source, "-k", "2", "--out", folder / "run"), same=False)

    yield Attempt("hostile names", "predict in the locale C", predicted)
    yield Attempt("hostile names", "a folder that is not UTF-8", refused)
    for shape in ("folders", "imagefolder", "labelstudio", "fiftyone", "csv"):
        yield Attempt("hostile names", f"export as {shape}", partial(exported, shape=shape))
    for name in ("resume", "runs", "groups", "why", "name", "report", "verify", "export csv", "check"):
        yield Attempt("hostile names", f"{name} in the locale C", partial(in_locale_c, name=name))
    for text in (
        "../../outside",
        "/etc/passwd",
        "a/b",
        "..",
        ".",
        "con",
        "x" * 400,
        "=1+1",
        "<b>",
        "a\nb",
        "\x00",
        "日本",
        " ",
    ):
        yield Attempt("hostile names", f"a group called {text[:20]!r}", partial(renamed, text=text))


def rubbish(ground: Ground) -> Iterator[Attempt]:  # noqa: ARG001 - one signature for all kinds
    """Every command with invalid arguments."""
    command = typer.main.get_command(app)
    every: dict[str, object] = command.commands  # type: ignore[attr-defined]
    groups = ("datasets", "bench")
    wrong: list[tuple[str, ...]] = [
        ("nowhere",), ("file",), ("empty",), ("",), ("-1",), ("x" * 5000,), ("nowhere", "nowhere"), ("file", "file"),
        ("empty", "empty", "--no-such-option"), ("nowhere", "0", "1"), ("file", "0", "1"), ("empty", "9" * 21),
        ("nowhere", "-k", "0"), ("nowhere", "-k", "x"), ("nowhere", "--size", "-5"), ("file", "--as", "nothing"),
    ]  # fmt: skip
    for name in every:
        if name in (*groups, "demo"):
            continue
        for arguments in wrong:

            def attack(folder: Path, name: str = name, arguments: tuple[str, ...] = arguments) -> str:
                (folder / "file").write_text("text")
                (folder / "empty").mkdir()
                given = [str(folder / part) if part in ("nowhere", "file", "empty") else part for part in arguments]
                with contextlib.chdir(folder):
                    ended = spice(name, *given)
                return judged(ended, same=ended.code != 0 or name == "doctor")

            yield Attempt("rubbish arguments", f"{name} {' '.join(arguments)[:60]}", attack)
