"""Images inside a tar or zip archive, read in place."""

import bisect
import lzma
import posixpath
import tarfile
import threading
import zipfile
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Self

from spice.data.decode import Content
from spice.data.problems import BadImageError, Problem, Reason
from spice.data.sources import Entry, Readable, Source, read_if_image, stamp_of
from spice.errors import UserError
from spice.files import printable

# Files that WebDataset stores next to an image: its label and description.
_BESIDE_IMAGES = (".cls", ".json", ".txt")

# What tarfile raises for damaged archives; the last three are bugs in tarfile.
_DAMAGE = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError, ValueError, TypeError, LookupError)


class Tar(Source):
    """An uncompressed tar: its members are indexed once, then read in any order."""

    mode = "r:"

    def __init__(self, path: Path) -> None:
        self.label, self.path = str(path), path
        self._places = array("q")  # offset and length of each entry
        self._open()

    def _open(self) -> None:
        self._file = self.path.open("rb")
        self._one_reader = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """For pickle: another process reopens the archive."""
        return {name: value for name, value in vars(self).items() if name not in ("_file", "_one_reader")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open()

    def entries(self) -> Iterator[Entry | Problem]:
        self._places = array("q")
        stamp = stamp_of(self.path.stat())
        links: dict[str, str] = {}
        for member in _members(self.path, self.mode):
            if isinstance(member, Problem):
                yield member
            elif _is_link(member):
                links[member.name] = _target(member)
            else:
                yield self._entry(member.name, stamp, member.offset_data, member.size)
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
        if not links:
            return
        plain = {posixpath.normpath(name): target for name, target in links.items()}
        ends = {name: _follow(posixpath.normpath(name), plain) for name in links}
        wanted = set(ends.values())
        places: dict[str | None, tuple[int, int]] = {}
        for member in _members(self.path, "r:"):
            if not isinstance(member, Problem) and not _is_link(member) and posixpath.normpath(member.name) in wanted:
                places[posixpath.normpath(member.name)] = (member.offset_data, member.size)
        for name, end in ends.items():
            if end in places:
                yield self._entry(name, stamp, *places[end])
            else:
                reason = Reason.LOOP_OF_LINKS if end is None else Reason.BROKEN_LINK
                yield Problem(name, reason, f"points to {printable(links[name])}")


class TarStream(Tar):
    """A compressed tar: its members can only be read first to last."""

    random_access, mode = False, "r|*"

    def read(self, entry: Entry) -> NoReturn:
        raise BadImageError(Reason.UNREADABLE, f"{entry.name} is in a compressed archive, which is read from its start")

    def _linked(self, links: dict[str, str], stamp: str) -> Iterator[Entry | Problem]:  # noqa: ARG002
        return (Problem(name, Reason.UNREADABLE, "a link inside a compressed archive") for name in links)

    def contents(self, entries: Iterable[Entry]) -> Iterator[Readable]:
        stream = self._stream()
        end = BadImageError(Reason.TRUNCATED, "the archive ends before this image")
        for entry in entries:
            outcome = next((outcome for number, outcome in stream if number == entry.number), end)
            yield entry, partial(_content_or_error, outcome)

    def _stream(self) -> Iterator[tuple[int, Content | BadImageError]]:
        """The number and the bytes of every regular file, in one pass over the archive."""
        with suppress(*_DAMAGE), tarfile.open(self.path, "r|*", tarinfo=_Member) as archive:
            files = (member for member in _read_on(archive) if _is_file(member))
            for number, member in enumerate(files):
                yield number, _read_member(archive, member)


class TarShards(Source):
    """Several uncompressed tars as one source, as WebDataset writes them. Text files next to images are left out."""

    def __init__(self, paths: Sequence[Path], *, label: str) -> None:
        self.label, self._tars, self._firsts = label, [Tar(path) for path in paths], [0]

    def entries(self) -> Iterator[Entry | Problem]:
        self._firsts, number = [], 0
        for tar in self._tars:
            self._firsts.append(number)
            for item in tar.entries():
                if isinstance(item, Problem):
                    yield item._replace(path=f"{tar.path.name}/{item.path}")
                    continue
                if not item.name.endswith(_BESIDE_IMAGES):
                    yield item._replace(name=f"{tar.path.name}/{item.name}", number=number)
                number += 1

    def read(self, entry: Entry) -> Content:
        shard = bisect.bisect_right(self._firsts, entry.number) - 1
        return self._tars[shard].read(entry._replace(number=entry.number - self._firsts[shard]))


class Zip(Source):
    """A zip archive."""

    def __init__(self, path: Path) -> None:
        self.label, self.path = str(path), path
        try:
            self._archive = zipfile.ZipFile(path)
        except Exception as error:  # a damaged archive raises errors of many kinds
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
                return read_if_image(file, info.file_size, longest=info.file_size, name=info.filename)
        except BadImageError:
            raise
        except Exception as error:  # one damaged member must not cost the others
            reason = Reason.TRUNCATED if isinstance(error, EOFError) else Reason.UNREADABLE
            raise BadImageError(reason, str(error) or "the archive ends too early") from error


def _members(path: Path, mode: str) -> Iterator[tarfile.TarInfo | Problem]:
    """The files and links of a tar; anything else is a problem. Damage ends the listing with one more."""
    first = True
    try:
        with tarfile.open(path, mode, tarinfo=_Member) as archive:  # type: ignore[call-overload]  # one of two modes
            for member in _read_on(archive):
                first = False
                usable = _is_file(member) or _is_link(member)
                yield member if usable else Problem(member.name, Reason.UNREADABLE, "not a regular file")
    except _DAMAGE as error:
        if first:
            raise UserError(f"{path} cannot be read as a tar archive ({error}): is it complete?") from error
        yield Problem(str(path), Reason.TRUNCATED, f"the archive is damaged from here on: {error}")


class _Member(tarfile.TarInfo):
    """Raises an error for a damaged header; tarfile would treat it as the end of the archive."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        try:
            member = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if len(buf) < tarfile.BLOCKSIZE or not any(buf):  # this is the end
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


def _is_file(member: tarfile.TarInfo) -> bool:
    return member.isreg() and not member.issparse()


def _is_link(member: tarfile.TarInfo) -> bool:
    return member.issym() or member.islnk()


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


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Content | BadImageError:
    """The bytes of the current member of a stream, or the error to raise when they are needed."""
    try:
        file = archive.extractfile(member)
        assert file is not None
        return read_if_image(file, member.size, longest=member.size, name=member.name)
    except BadImageError as error:
        return error
    except _DAMAGE as error:
        return BadImageError(Reason.TRUNCATED, f"the archive is damaged here: {error}")


def _content_or_error(outcome: Content | BadImageError) -> Content:
    if isinstance(outcome, BadImageError):
        raise outcome
    return outcome
