"""A run under way: Ctrl-C and `kill` end it in words, which say what is kept and how to go on."""

import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from types import FrameType

import typer

from spice.errors import SpiceWarning

STOPPED = 130  # what shells expect of a command ended by Ctrl-C


@contextmanager
def under_way(run: Path) -> Iterator[None]:
    """Say how to go on when the user stops the work inside; keep its warnings for the account at the end."""
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SpiceWarning)
            yield
    except KeyboardInterrupt:
        print(f"\nspice: stopped; finished work is kept. Go on with: spice resume {quote(str(run))}", file=sys.stderr)
        raise typer.Exit(STOPPED) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the system's signature
    raise KeyboardInterrupt
