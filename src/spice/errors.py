"""Errors and warnings that are meant for the user."""


class UserError(Exception):
    """An error that the user can fix: one line that says what is wrong, the value found, and what to do."""

    exit_code = 2


class NothingReadableError(UserError):
    """The source holds no image that could be read."""

    exit_code = 3


class NothingTrustworthyError(UserError):
    """The run ended without a single reliable answer."""

    exit_code = 4


class SpiceWarning(UserWarning):
    """A result to check: the base class of all warnings of the program."""
