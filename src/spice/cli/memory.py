"""Too little memory: one line instead of a hang, an abort or a traceback."""

import errno
import os
import re
import sys
from typing import Final

from spice.errors import UserError

# Options of `ulimit`, and bytes. -d: what `spice doctor --plan` shows for a run without images. -v: what a small run
# needs. With less, OpenBLAS hangs while loading, or the dynamic loader, safetensors or a C++ thread aborts.
LEAST: Final = {"RLIMIT_DATA": ("-d", 1.2e9), "RLIMIT_AS": ("-v", 1.9e9)}
ADVICE = (
    "out of memory; close other programs or use a smaller --size (spice doctor --plan N estimates what N images need). "
    "Finished work is kept; run the same command again to resume"
)
_OUT_OF_MEMORY = re.compile(
    r"can't start new thread|can't allocate memory|cannot allocate memory|bad.?alloc|failed to map segment|"
    r"unable to allocate|out of memory|could not (create|execute) a primitive",  # the last is all that oneDNN says
    re.IGNORECASE,
)


def prepare() -> None:
    """Refuse a memory limit that is too low to load the libraries; keep pyarrow from reserving 1 GB of it."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if sys.platform == "win32":  # which has no such limits
        return
    import resource

    for name, (option, least) in LEAST.items():
        allowed, _ = resource.getrlimit(getattr(resource, name))
        if allowed != resource.RLIM_INFINITY and allowed < least:
            raise UserError(
                f"memory is limited to {allowed / 1e9:.2f} GB, but spice needs at least {least / 1e9:.2f} GB; "
                f"raise the limit with: ulimit {option} unlimited"
            )


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error of Python, torch, ONNX Runtime or the system means out of memory."""
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    return bool(_OUT_OF_MEMORY.search(str(error)))
