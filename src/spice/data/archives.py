"""Images inside a tar or zip archive, read in place."""

import lzma
import posixpath
import tarfile
import threading
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, Self

from spice.data.decode import Content
from spice.data.problems import BadImageError, Problem, Reason, printable
from spice.data.sources import AnyOrder, Entry, Piece, read_if_image, stamp_of
from spice.errors import UserError

# What tarfile raises for damaged archives. The last three are slips of its own.
_DAMAGE = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError, ValueError, TypeError, LookupError)


class Tar(AnyOrder):
    """A plain tar: the place of every member is noted once, then members are read in any order."""

    def __init__(self, path: Path) -> None:
        self.label = str(path)
        self.path = path
        self._places = array("q")  # offset and length of each entry
        self._file = path.open("rb")
        self._one_reader = threading.Lock()

    def entries(self) -> Iterator[Entry | Problem]:
        self._places = array("q")
        stamp = stamp_of(self.path.stat())
        links: dict[str, str] = {}
        for member in _members(self.path, "r:"):
            if isinstance(member, Problem):
                yield member
            elif member.issym() or member.islnk():
                links[member.name] = _target(member)
            elif (problem := _unusable(member)) is not None:
                yield problem
            else:
                yield self._entry(member.name, stamp, member.offset_data, member.size)
        if links:
            yield from self._linked(links, stamp)

    def read(self, entry: Entry) -> Content:
        offset, length = self._places[2 * entry.number : 2 * entry.number + 2]
        with self._one_reader:
            self._file.seek(offset)
            data = read_if_image(self._file, length, longest=length)
        if len(data) < length:
            raise BadImageError(Reason.TRUNCATED, f"the archive ends after {len(data):,} of {length:,} bytes")
        return data

    def _entry(self, name: str, stamp: str, offset: int, length: int) -> Entry:
        self._places.extend((offset, length))
        return Entry(name, f"{stamp}-{offset}", len(self._places) // 2 - 1, length)

    def _linked(self, links: dict[str, str], stamp: str) -> Iterator[Entry | Problem]:
        """Entries for links inside the archive, looked up in a second pass, so that names need not be kept."""
        plain = {posixpath.normpath(name): target for name, target in links.items()}
        ends = {name: _follow(posixpath.normpath(name), plain) for name in links}
        wanted = set(ends.values())
        places: dict[str | None, tuple[int, int]] = {}
        for member in _members(self.path, "r:"):
            if not isinstance(member, Problem) and member.isreg() and posixpath.normpath(member.name) in wanted:
                places[posixpath.normpath(member.name)] = (member.offset_data, member.size)
        for name, end in ends.items():
            if end is None:
                yield Problem(name, Reason.LOOP_OF_LINKS, f"points to {printable(links[name])}")
            elif end not in places:
                yield Problem(name, Reason.BROKEN_LINK, f"points to {printable(links[name])}")
            else:
                yield self._entry(name, stamp, *places[end])


class TarStream:
    """A compressed tar: its members can only be read first to last."""

    any_order = False

    def __init__(self, path: Path) -> None:
        self.label = str(path)
        self.path = path

    def entries(self) -> Iterator[Entry | Problem]:
        stamp = stamp_of(self.path.stat())
        number = 0
        for member in _members(self.path, "r|*"):
            if isinstance(member, Problem):
                yield member
            elif (problem := _unusable(member)) is not None:
                yield problem
            else:
                yield Entry(member.name, f"{stamp}-{number}", number, member.size)
                number += 1

    def read(self, entry: Entry) -> NoReturn:  # noqa: ARG002
        raise BadImageError(Reason.UNREADABLE, "a compressed archive can only be read from start to end")

    def _stream(self) -> Iterator[tuple[int, Callable[[], Content]]]:
        """Every usable member's number and bytes, in one go through the archive."""
        with suppress(*_DAMAGE), tarfile.open(self.path, "r|*", tarinfo=_Member) as archive:
            usable = (member for member in _read_on(archive) if _unusable(member) is None)
            for number, member in enumerate(usable):
                yield number, _read_now(archive, member)

    def contents(self, entries: Iterable[Entry]) -> Iterator[Piece]:
        stream = self._stream()
        for entry in entries:
            read = next((read for number, read in stream if number == entry.number), None)
            yield entry, read or _failure(Reason.TRUNCATED, "the archive ends before this image")


class Zip(AnyOrder):
    """A zip archive."""

    def __init__(self, path: Path) -> None:
        self.label = str(path)
        self.path = path
        try:
            self._archive = zipfile.ZipFile(path)
        except Exception as error:  # zipfile lets through whatever its parsing of a damaged table ends with
            raise UserError(f"{path} cannot be read as a zip archive ({error}): is it complete?") from error
        self._members = [info for info in self._archive.infolist() if not info.filename.endswith("/")]

    def entries(self) -> Iterator[Entry | Problem]:
        stamp = stamp_of(self.path.stat())
        for number, info in enumerate(self._members):
            yield Entry(info.filename, f"{stamp}-{info.header_offset}", number, info.file_size)

    def read(self, entry: Entry) -> Content:
        info = self._members[entry.number]
        try:
            with self._archive.open(info) as file:
                return read_if_image(file, info.file_size, longest=info.file_size)
        except BadImageError:
            raise
        except EOFError as error:
            raise BadImageError(Reason.TRUNCATED, "the archive ends too early") from error
        except Exception as error:  # one damaged member must not cost the others
            raise BadImageError(Reason.UNREADABLE, str(error)) from error


def _members(path: Path, mode: str) -> Iterator[tarfile.TarInfo | Problem]:
    """The members of a tar that are not folders; damage ends the listing with a problem in the archive's own name."""
    first = True
    try:
        with tarfile.open(path, mode, tarinfo=_Member) as archive:  # type: ignore[call-overload]  # one of two modes
            for member in _read_on(archive):
                first = False
                yield member
    except _DAMAGE as error:
        if first:
            raise UserError(f"{path} cannot be read as a tar archive ({error}): is it complete?") from error
        yield Problem(str(path), Reason.TRUNCATED, f"the archive is damaged from here on: {error}")


class _Member(tarfile.TarInfo):
    """A member whose damaged header is an error: tarfile takes it for the end, and what follows would be lost."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        try:
            member = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if len(buf) < tarfile.BLOCKSIZE or not any(buf):  # the end indeed
                raise
            raise tarfile.ReadError(str(error)) from error
        if member.size < 0:  # Pythons before 3.11.14, 3.12.12 and 3.13.6 would read the same members for ever
            raise tarfile.ReadError("a member of negative length")
        return member


def _read_on(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    while (member := archive.next()) is not None:
        if not member.isdir():
            yield member
        archive.members.clear()  # type: ignore[attr-defined]  # tarfile would keep a kilobyte per member


def _unusable(member: tarfile.TarInfo) -> Problem | None:
    if member.issym() or member.islnk():
        return Problem(member.name, Reason.UNREADABLE, "a link inside a compressed archive")
    if not member.isreg() or member.issparse():
        return Problem(member.name, Reason.UNREADABLE, "not a regular file")
    return None


def _target(member: tarfile.TarInfo) -> str:
    """The name a link inside the archive points to: a hard link's from the root, a symbolic one's from its folder."""
    start = "" if member.islnk() else posixpath.dirname(member.name)
    return posixpath.normpath(posixpath.join(start, member.linkname))


def _follow(name: str, links: dict[str, str]) -> str | None:
    """Where a chain of links ends, or None if it never does."""
    for _ in range(40):  # as many as Linux follows
        name = links[name]
        if name not in links:
            return name
    return None


def _read_now(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], Content]:
    """Read the member before the stream moves on; an error is raised when its content is wanted."""
    try:
        file = archive.extractfile(member)
        assert file is not None
        data = read_if_image(file, member.size, longest=member.size)
    except BadImageError as error:
        return _failure(error.reason, error.detail)
    except _DAMAGE as error:
        return _failure(Reason.TRUNCATED, f"the archive is damaged here: {error}")
    return lambda: data


def _failure(reason: Reason, detail: str) -> Callable[[], Content]:
    def fail() -> NoReturn:
        raise BadImageError(reason, detail)

    return fail
