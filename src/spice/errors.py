"""What can go wrong in a user's hands, and the words it is told in."""


class UserError(Exception):
    """A mistake the user can mend: one line that says what is wrong, the value found, and what to do."""

    exit_code = 2


class NothingReadableError(UserError):
    """The source holds no image that could be read."""

    exit_code = 3


class NothingTrustworthyError(UserError):
    """The run ended without a single reliable answer."""

    exit_code = 4


class SpiceWarning(UserWarning):
    """A result that should be looked at: every named warning of the program derives from this one."""
