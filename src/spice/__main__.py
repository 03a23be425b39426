"""The command `spice`, also available as `python -m spice`."""

import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command; Ctrl-C while its libraries load ends it without a traceback."""
    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the system's signature
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    try:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not ignored, as in a shell's background
            signal.signal(signal.SIGINT, interrupt)
        from spice.cli import main as command

        command()
    except (KeyboardInterrupt, Exception) as error:
        # A library that is interrupted while it loads may turn Ctrl-C into an ImportError or a RecursionError.
        if not isinstance(error, KeyboardInterrupt) and (not interrupted or os.environ.get("SPICE_DEBUG")):
            raise
        sys.stderr.write("\nspice: stopped\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
