"""Images in object storage (`s3://bucket/folder`, `gs://bucket/folder`), read through pyarrow's file systems."""

import posixpath
from collections.abc import Iterator

import pyarrow as pa
from pyarrow import fs

from spice.data.decode import Content
from spice.data.problems import BadImageError, Problem, Reason
from spice.data.sources import Entry, Source, read_if_image
from spice.errors import UserError, one_line

_SCHEMES = ("s3://", "gs://", "gcs://", "hdfs://", "file://")


def is_remote(name: str) -> bool:
    """Whether this is an address in object storage."""
    return name.startswith(_SCHEMES)


class Remote(Source):
    """Every file under an address. Credentials are found as by the provider's own tools."""

    def __init__(self, address: str) -> None:
        self.label = address
        try:
            self._files, self._root = fs.FileSystem.from_uri(address)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise UserError(f"{address} cannot be opened: {one_line(error)}") from error

    def entries(self) -> Iterator[Entry | Problem]:
        try:
            found = self._files.get_file_info(fs.FileSelector(self._root, recursive=True))
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{self.label} cannot be listed: {one_line(error)}") from error
        files = sorted((info for info in found if info.type == fs.FileType.File), key=lambda info: str(info.path))
        for number, info in enumerate(files):
            name = posixpath.relpath(info.path, self._root)
            yield Entry(name, f"{info.size}-{info.mtime_ns}", number, info.size)

    def read(self, entry: Entry) -> Content:
        try:
            with self._files.open_input_file(posixpath.join(self._root, entry.name)) as file:
                return read_if_image(file, entry.length, name=entry.name)
        except (pa.ArrowException, OSError) as error:
            raise BadImageError(Reason.UNREADABLE, one_line(error)) from error
