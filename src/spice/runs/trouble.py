"""A full disk or a folder that may not be written: one clear line instead of a traceback."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spice.errors import UserError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# numpy's message for a short write has no error number; pyarrow and safetensors have it in their text.
_FULL_TEXT = re.compile(r"No space left|os error (28|27)\b|requested and \d+ written")
_FORBIDDEN = {errno.EROFS, errno.EACCES, errno.EPERM}


@contextmanager
def explain_write_errors(folder: Path) -> Iterator[None]:
    """Turn an error in writing to `folder` into a UserError; let every other error pass."""
    try:
        yield
    except OSError as error:
        message = _message(error, folder)
        if message is None:
            raise
        raise UserError(message) from error
    except Exception as error:
        # safetensors raises its own exception.
        if not _FULL_TEXT.search(str(error)):
            raise
        raise UserError(_full(folder)) from error


def _message(error: OSError, folder: Path) -> str | None:
    if error.errno in _FULL or _FULL_TEXT.search(str(error)):
        return _full(folder)
    if error.errno in _FORBIDDEN and _inside(error.filename, folder):
        return f"cannot write to {folder}: {error.strerror}; give another folder with --out"
    return None


def _full(folder: Path) -> str:
    return f"the disk of {folder} is full; free some space, then: spice resume {folder} (finished steps are kept)"


def _inside(name: object, folder: Path) -> bool:
    """Whether the file is in the run folder, or is a parent of it."""
    if not isinstance(name, str | Path):
        return False
    file, home = Path(name).absolute(), folder.absolute()
    return file.is_relative_to(home) or home.is_relative_to(file)
