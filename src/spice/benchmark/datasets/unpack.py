"""Unpacking a tar or zip archive into a folder, and never outside it."""

import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from spice.errors import UserError
from spice.progress import Progress, silent

_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, RuntimeError)


def is_archive(path: Path) -> bool:
    """Whether the content of the file, not its name, is a tar or zip archive of files (an .npz is one of arrays)."""
    if tarfile.is_tarfile(path):
        return True
    try:
        with zipfile.ZipFile(path) as archive:
            return not all(name.endswith(".npy") for name in archive.namelist())
    except zipfile.BadZipFile:
        return False


def unpack(path: Path, folder: Path, *, progress: Progress = silent) -> None:
    """Write every regular file of the archive under `folder`; links and devices are left out. Raises OSError too."""
    task, total = f"unpacking {path.name} (kB)", path.stat().st_size // 1000
    try:
        for name, content, position in _tar(path) if tarfile.is_tarfile(path) else _zip(path):
            target = folder / _inside(name, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                shutil.copyfileobj(content, file, 1 << 20)
            progress(task, min(position // 1000, max(total - 1, 0)), total)
    except _DAMAGE as error:
        raise UserError(f"{path} cannot be unpacked ({error}): is it complete?") from error
    progress(task, total, total)


def _inside(name: str, archive: Path) -> PurePosixPath:
    """The name, if it stays below the folder on every system."""
    inside = PurePosixPath(name)
    if (
        inside.is_absolute()
        or ".." in inside.parts
        or not inside.parts
        or any(character in name for character in "\\:\0")
    ):
        raise UserError(f"{archive} is refused: it holds {name!r}, which could be written outside of its folder")
    return inside


def _tar(path: Path) -> Iterator[tuple[str, IO[bytes], int]]:
    """Name, content and place of every regular file, first to last."""
    with path.open("rb") as raw, tarfile.open(fileobj=raw, mode="r:*") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isreg() else None
            if content is not None:
                yield member.name, content, raw.tell()
            archive.members.clear()  # type: ignore[attr-defined]  # tarfile would keep a kilobyte per member


def _zip(path: Path) -> Iterator[tuple[str, IO[bytes], int]]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if not info.is_dir():
                with archive.open(info) as content:
                    yield info.filename, content, info.header_offset
