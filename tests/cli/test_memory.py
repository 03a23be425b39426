"""Too little memory is one line, before libraries hang or abort."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spice.cli import memory

LIMITED = "import resource; resource.setrlimit(resource.{0}, ({1}, {1})); from spice.cli import main; main()"


@pytest.mark.skipif(sys.platform != "linux", reason="limits as on Linux")
@pytest.mark.parametrize(
    ("limit", "size"), [("RLIMIT_DATA", 256 << 20), ("RLIMIT_DATA", 512 << 20), ("RLIMIT_AS", 1 << 30)]
)
def test_a_limit_that_no_library_fits_in_is_refused_in_one_line(shapes: Path, limit: str, size: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED.format(limit, size), "cluster", str(shapes), "-k", "4"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith(f"spice: memory is limited to {size / 1e9:.2f} GB, but spice needs ")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="limits as on Linux")
@pytest.mark.parametrize("threads", ["1", "2"])
def test_an_edit_ends_well_with_the_least_memory_that_is_allowed(run: Path, threads: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED.format("RLIMIT_DATA", int(memory.LEAST["RLIMIT_DATA"][1])), "split", run, "0"],
        env=os.environ | {"OMP_NUM_THREADS": threads},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr  # pyarrow reserved 1 GB, then waited for a thread that had no room


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("can't start new thread"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("could not create a primitive"),
        OSError(12, "Cannot allocate memory"),
        ImportError("libx.so: failed to map segment from shared object"),
    ],
)
def test_memory_that_is_used_up_is_one_line(
    spice: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("spice.runs.read_manifest", fail)
    ended = spice("verify", tmp_path)
    assert ended.code == 2
    assert ended.err == f"spice: {memory.ADVICE}\n"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(28, "No space left on device"), "the disk is full; free some space, then run the same command again"),
        (PermissionError(13, "Permission denied", "/a/b"), "/a/b: Permission denied (SPICE_DEBUG=1 shows where)"),
    ],
)
def test_what_the_system_refuses_is_one_line(
    spice: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception, words: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("spice.runs.read_manifest", fail)
    ended = spice("verify", tmp_path)
    assert (ended.code, ended.err) == (2, f"spice: {words}\n")
    monkeypatch.setenv("SPICE_DEBUG", "1")
    with pytest.raises(OSError, match=error.args[1]):
        spice("verify", tmp_path)


def test_a_mistake_of_the_program_is_not_hidden(
    spice: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("spice.runs.read_manifest", lambda _: int("nothing"))
    with pytest.raises(ValueError, match="nothing"):
        spice("verify", tmp_path)


def test_a_name_that_is_too_long_is_one_line(spice: Callable[..., Any]) -> None:
    ended = spice("cluster", "x" * 5000, "-k", "2")
    assert ended.code == 2
    assert ended.err.count("\n") == 1
    assert "File name too long" in ended.err


def test_other_errors_are_not_taken_for_it() -> None:
    assert not memory.is_out_of_memory(RuntimeError("shapes differ"))
    assert not memory.is_out_of_memory(OSError(28, "No space left on device"))
