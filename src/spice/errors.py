"""Errors and warnings that are meant for the user."""

import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError

LONGEST = 200  # characters quoted from the error of another library
_PACKAGE = f"{Path(__file__).parent}{os.sep}"


class UserError(Exception):
    """An error that the user can fix: one line that says what is wrong, the value found, and what to do."""

    exit_code = 2


class NothingReadableError(UserError):
    """The source contains no readable image."""

    exit_code = 3


class NothingTrustworthyError(UserError):
    """The run ended without a single reliable image."""

    exit_code = 4


class SpiceWarning(UserWarning):
    """The base class of all warnings from spice."""


class NoticeWarning(SpiceWarning):
    """A warning that does not concern the result. It is shown immediately, because no summary repeats it."""


def one_line(error: BaseException) -> str:
    """The message of an error on one line: its first sentences if it is long, its class if it is empty."""
    text = " ".join(str(error).split()) or type(error).__name__
    if len(text) <= LONGEST:
        return text
    sentences = text[:LONGEST].rpartition(". ")[0]
    return sentences or f"{text[: LONGEST - 3]}..."


def field_of(error: "ValidationError") -> str:
    """The field of the first mistake: `heads.clusters`."""
    return ".".join(str(part) for part in error.errors()[0]["loc"])


def warn_user(message: str, category: type[SpiceWarning]) -> None:
    """Warn at the line of the user's program that led here, not at a line of spice."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    module = frame.f_globals.get("__name__", "<unknown>")
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, module, registry)
