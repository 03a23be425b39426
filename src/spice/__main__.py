"""The command `spice`, also available as `python -m spice`."""

import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command; Ctrl-C while its libraries load ends it without a traceback."""
    stopped = []

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the system's signature
        stopped.append(number)
        raise KeyboardInterrupt

    try:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not ignored, as in a shell's background
            signal.signal(signal.SIGINT, stop)
        from spice.cli import main as command

        command()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception:
        # A library that Ctrl-C interrupts while it loads may turn it into an ImportError or a RecursionError.
        if not stopped or os.environ.get("SPICE_DEBUG"):
            raise
        sys.stderr.write("\nspice: stopped\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
