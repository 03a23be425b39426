"""The explorer for notebooks: `spice open` in a child process, which ends with this one."""

import atexit
import subprocess
import sys
import webbrowser
from pathlib import Path

from spice.errors import UserError

_started: dict[Path, tuple[subprocess.Popen[str], str]] = {}


def explore(run: Path, *, browser: bool) -> str:
    """Serve the run on this machine, unless it is already served; return the address."""
    process, address = _started.get(run, (None, ""))
    if process is None or process.poll() is not None:
        command = [sys.executable, "-m", "spice", "open", str(run), "--browser" if browser else "--no-browser"]
        pipe = subprocess.PIPE  # spice writes UTF-8 to pipes, whatever the system's encoding
        process = subprocess.Popen(command, stdout=pipe, stderr=pipe, encoding="utf-8", errors="replace")
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("Serving "):
            reason = (process.communicate()[1].strip().splitlines() or ["it did not start"])[-1]
            raise UserError(f"cannot open {run}: {reason.removeprefix('spice: ')}")
        address = line.rpartition(" at ")[2].strip()
        _started[run] = process, address
        atexit.register(process.terminate)
    elif browser:
        webbrowser.open(address)
    return address
