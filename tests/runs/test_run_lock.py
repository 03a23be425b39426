"""One process at a time in a run folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from spice.errors import UserError
from spice.runs import locked

HOLD = """
import sys, time
from pathlib import Path
from spice.runs.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_refused_with_the_name_of_the_first(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UserError, match=rf"in use by process {holder.pid} on .*--out"), locked(tmp_path):
            pass
        holder.kill()  # -9: nobody cleans up
        holder.wait()
    assert (tmp_path / ".lock").exists()
    with locked(tmp_path):  # the lock ended with its process
        pass


def test_a_lock_is_free_again_after_use(tmp_path: Path) -> None:
    for _ in range(2):
        with locked(tmp_path):
            pass
