"""Opens a path, glob, archive, list or object in memory as a source."""

import csv
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from glob import has_magic
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spice.data.adapters import adapt
from spice.data.archives import Tar, TarShards, TarStream, Zip
from spice.data.columns import PATH_COLUMNS, find_column
from spice.data.remote import Remote, is_remote
from spice.data.sources import Files, Folder, Source, SourceLike, array_file
from spice.data.vectors import Vectors
from spice.errors import UserError
from spice.files import printable
from spice.tables import read_parquet

_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")


def open_source(source: SourceLike, *, leave_out: Iterable[Path] = ()) -> Source:
    """The source for a path, a glob, or anything in memory that holds images; raises a UserError for anything else.

    `leave_out`: folders to skip, such as the run's own, if it is inside the source.
    """
    adapted = adapt(source)
    if isinstance(adapted, Vectors):
        if adapted.pictures is None:
            raise UserError(f"{adapted.label} contains vectors of shape {adapted.values.shape}, not images")
        return adapted.pictures
    if isinstance(adapted, Source):
        return adapted
    try:
        return _open_path(adapted, leave_out)
    except (OSError, ValueError, csv.Error, pa.ArrowException) as error:
        raise UserError(f"{printable(adapted)} cannot be read: {error}") from error


def _open_path(name: str, leave_out: Iterable[Path]) -> Source:
    if not name:  # probably an unset variable in a script
        raise UserError("the path of the images is empty; pass a folder, a file or an address")
    if is_remote(name):
        return Remote(name)
    path = Path(name)
    if path.is_dir():
        return Folder(path, leave_out=leave_out)
    if path.is_file():
        return _open_file(path)
    if has_magic(name):
        matches = sorted(str(match) for match in _matches(path) if not match.is_dir())
        if not matches:
            raise UserError(f"no files match {name}")
        if all(match.endswith(".tar") for match in matches):
            return TarShards([Path(match) for match in matches], label=name)
        return Files(matches, label=name)
    raise UserError(f"there is no file or folder {name}")


def _matches(pattern: Path) -> Iterator[Path]:
    """What a glob matches. `**` does not follow links to folders: two that lead back would never end."""
    parts = pattern.parts
    first = next(place for place, part in enumerate(parts) if has_magic(part))
    below = [*parts[first:], "*"] if parts[-1] == "**" else parts[first:]  # else only folders match, before 3.13
    return Path(*parts[:first]).glob("/".join(below))


def _open_file(path: Path) -> Source:
    suffix = path.suffix.lower()
    if suffix in (".npy", ".npz"):
        return array_file(path)
    if suffix in (".txt", ".lst", ".csv", ".tsv", ".parquet"):
        return Files(_read_list(path, suffix), label=str(path), base=path.parent)
    if suffix == ".zip" or zipfile.is_zipfile(path):
        return Zip(path)
    if ".tar" in path.suffixes or suffix in (".tgz", ".tbz2", ".txz") or tarfile.is_tarfile(path):
        with path.open("rb") as file:
            return TarStream(path) if file.read(6).startswith(_COMPRESSED) else Tar(path)
    return Files([str(path)], label=str(path))


def _read_list(path: Path, suffix: str) -> Sequence[str]:
    """The paths in a list; relative ones start at the list's own folder. Other columns are ignored."""
    if suffix == ".parquet":
        column = _path_column(pq.read_schema(path).names, path)
        names: list[str | None] = read_parquet(path, [column]).column(0).cast(pa.string()).to_pylist()
    elif suffix in (".csv", ".tsv"):
        names = _column_of_csv(path, "\t" if suffix == ".tsv" else ",")
    else:
        text = path.read_text(encoding="utf-8-sig", errors="surrogateescape")
        names = [line.removesuffix("\r") for line in text.split("\n")]
    listed = [name for name in names if name]
    if not listed:
        raise UserError(f"{path} lists no images")
    return listed


def _column_of_csv(path: Path, separator: str) -> list[str | None]:
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        rows = csv.reader(file, delimiter=separator)
        header = next(rows, [])
        if header and (path.parent / header[0]).is_file():  # no header: the first line is an image already
            return [header[0], *(row[0] for row in rows if row)]
        place = header.index(_path_column(header, path))
        return [row[place] for row in rows if len(row) > place]


def _path_column(names: Sequence[str], path: Path) -> str:
    found = find_column(names, PATH_COLUMNS)
    if found is None:
        raise UserError(f"{path} has no path column; name one `path` (found: {', '.join(names) or 'no column'})")
    return found
