"""Reports a full disk or a read-only folder in one clear line instead of a traceback."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spice.errors import UserError
from spice.runs.folder import refuse_links_outside
from spice.runs.manifest import MANIFEST

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# numpy's message for a short write has no error number; pyarrow and safetensors have it in their text.
_FULL_TEXT = re.compile(r"No space left|os error (28|27)\b|requested and \d+ written")
_FORBIDDEN = {errno.EROFS, errno.EACCES, errno.EPERM}


@contextmanager
def explain_write_errors(folder: Path) -> Iterator[None]:
    """Turn an error in writing to the run folder `folder` into a UserError; let every other error pass."""
    try:
        yield
    except Exception as error:
        if is_full(error):
            advice = "free some space, then run the same command again (finished steps are kept)"
            raise UserError(f"no space left on the disk of {folder}; {advice}") from error
        if isinstance(error, OSError) and error.errno in _FORBIDDEN and _concerns(error, folder):
            started = (folder / MANIFEST).exists()
            advice = "use a copy of this folder" if started else "choose another folder with --out"
            raise UserError(f"cannot write to {folder}: {error.strerror}; {advice}") from error
        raise


@contextmanager
def writing(run: Path) -> Iterator[None]:
    """For writing into an existing run folder: refuses links that lead out of it, and explains errors."""
    refuse_links_outside(run)
    with explain_write_errors(run):
        yield


@contextmanager
def explain_output_errors(path: Path) -> Iterator[None]:
    """Turn an error in writing the file or folder `path`, or in reading what goes into it, into a UserError."""
    try:
        yield
    except Exception as error:
        if is_full(error):
            message = f"cannot write {path}: the disk is full; free some space, then run the same command again"
            raise UserError(message) from error
        if not isinstance(error, OSError) or isinstance(error, BrokenPipeError):
            raise
        reason = error.strerror or " ".join(str(error).split())
        if isinstance(error, FileExistsError):  # where a folder was to be created
            reason = f"{error.filename} is a file"
        if _concerns(error, path):
            raise UserError(f"cannot write {path}: {reason}; choose another name") from error
        raise UserError(f"cannot read {error.filename}: {reason}") from error


def is_full(error: Exception) -> bool:
    """Whether an error says that the disk is full."""
    # safetensors has its own exception.
    return getattr(error, "errno", None) in _FULL or bool(_FULL_TEXT.search(str(error)))


def _concerns(error: OSError, path: Path) -> bool:
    """Whether the error is about `path`, what is inside it, a parent of it, or the temporary name beside it."""
    if not isinstance(error.filename, str | Path):
        return error.filename is None
    file, home = Path(error.filename).absolute(), path.absolute()
    if home.is_relative_to(file):
        return True
    return any(part.parent == home.parent and _is_temporary(part, home) for part in (file, *file.parents))


def _is_temporary(file: Path, home: Path) -> bool:
    return file == home or (file.name.startswith(f".{home.name}.") and file.suffix == ".partial")
