"""A full disk, and a folder that may not be written, are explained in one line."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spice.errors import UserError
from spice.runs import explain_output_errors, explain_write_errors

# Files may not grow beyond 64 kB: to the program, a disk that fills up in the middle of a write.
FULL = """
import resource, signal, sys
from pathlib import Path
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import save_file
from spice.errors import UserError
from spice.files import written_atomically
from spice.runs import explain_output_errors, explain_write_errors
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
folder = Path(sys.argv[1])
big = np.random.default_rng(0).random(100_000)

def numpy(path): np.save(path.open("wb"), big)
def safetensors(path): save_file({"big": big}, path)
def parquet(path): pq.write_table(pa.table({"big": big}), path)
def text(path): path.write_text(str(big.tolist()))

try:
    with explain_write_errors(folder), written_atomically(folder / "big") as temporary:
        globals()[sys.argv[2]](temporary)
except UserError as error:
    print(error)
"""


@pytest.mark.skipif(os.name != "posix", reason="Windows has no limit on the size of files")
@pytest.mark.parametrize("kind", ["numpy", "safetensors", "parquet", "text"])
def test_a_full_disk_is_one_line_and_leaves_nothing_half_written(tmp_path: Path, kind: str) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path), kind]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.stderr == ""
    assert result.stdout == (
        f"no space left on the disk of {tmp_path}; free some space, then run the same command again "
        "(finished steps are kept)\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_inside_the_run_folder_names_the_folder_and_the_way_out(tmp_path: Path) -> None:
    read_only = OSError(errno.EROFS, os.strerror(errno.EROFS), str(tmp_path / "run" / "manifest.json"))
    message = r"cannot write to .*run: Read-only file system; choose another folder"
    with pytest.raises(UserError, match=message), explain_write_errors(tmp_path / "run"):
        raise read_only
    with pytest.raises(UserError, match=r"Permission denied"), explain_write_errors(tmp_path / "run"):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(tmp_path))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "manifest.json").touch()  # a run that others made: only cluster has --out
    with pytest.raises(UserError, match="use a copy of this folder"), explain_write_errors(tmp_path / "run"):
        raise read_only


def test_other_errors_pass_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), explain_write_errors(tmp_path / "run"):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/photos/a.jpg")
    with pytest.raises(ZeroDivisionError), explain_write_errors(tmp_path):
        raise ZeroDivisionError


def test_an_output_that_cannot_be_written_is_one_line_that_names_it(tmp_path: Path) -> None:
    out = tmp_path / "groups"
    refused = PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(tmp_path / ".groups.12.partial"))
    with (
        pytest.raises(UserError, match=rf"^cannot write {out}: Permission denied; choose another name$"),
        explain_output_errors(out),
    ):
        raise refused
    with (
        pytest.raises(UserError, match=rf"^cannot write {out}: the disk is full; free some space, then run the same"),
        explain_output_errors(out),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with (
        pytest.raises(UserError, match=rf"^cannot read {tmp_path}/photos/a.jpg: Permission denied$"),
        explain_output_errors(out),
    ):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(tmp_path / "photos" / "a.jpg"))
    with pytest.raises(BrokenPipeError), explain_output_errors(out):
        raise BrokenPipeError
