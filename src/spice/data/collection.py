"""The image table: every usable image, sorted by content hash.

This order keeps names, folders (which may be classes) and the order of a listing out of every result. Exact copies
have their own rows, next to each other, and refer to the first.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spice.data.problems import Problem, read_problems, write_problems
from spice.files import printable
from spice.tables import read_parquet, write_parquet

# The lines of images.parquet. A position in the collection is a line here.
SCHEMA = pa.schema(
    [
        ("path", pa.string()),  # as the source names it; bytes that are not UTF-8 are escaped
        ("hash", pa.string()),  # of the file's bytes, or of the pixels if there is no file
        ("width", pa.int32()),  # as shown, after EXIF orientation
        ("height", pa.int32()),
        ("gray", pa.bool_()),  # at the working size
        ("copy_of", pa.int64()),  # the line of the first image with the same content; null in that line itself
        ("number", pa.int64()),  # place in the source's own listing: row of an array, place in a list
        ("row", pa.int64()),  # place in the store's file of gray or of color images; -1: decoded when needed
        ("pixels", pa.string()),  # hash of the pixels in the store
    ]
)


@dataclass(frozen=True, eq=False)
class Collection:
    """The usable images of a source, in order of content, and its problems."""

    table: pa.Table
    problems: tuple[Problem, ...]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def paths(self) -> list[str]:
        return self.table["path"].to_pylist()  # type: ignore[no-any-return]

    @property
    def gray(self) -> NDArray[np.bool_]:  # (N,)
        return np.asarray(self.table["gray"]).astype(np.bool_)

    @property
    def rows(self) -> NDArray[np.int64]:  # (N,)
        return np.asarray(self.table["row"]).astype(np.int64)

    @property
    def numbers(self) -> NDArray[np.int64]:  # (N,)
        """Place of each image in the source's listing: `answer[numbers] = labels` restores the user's order."""
        return np.asarray(self.table["number"]).astype(np.int64)

    @property
    def copy_of(self) -> NDArray[np.int64]:  # (N,)
        """Position of the first image with the same content, -1 for an image that is itself the first."""
        return np.asarray(pc.fill_null(self.table["copy_of"], -1), dtype=np.int64)

    @property
    def distinct(self) -> NDArray[np.int64]:  # (U,)
        """Positions of distinct images; the exact copies of each follow it."""
        return np.flatnonzero(self.copy_of < 0)

    @property
    def identity(self) -> str:
        """A hash of all contents: the same images have the same identity, whatever their names."""
        return hashlib.blake2b("".join(self.table["hash"].to_pylist()).encode(), digest_size=16).hexdigest()

    def save(self, folder: Path) -> None:
        """Write `images.parquet` and `problems.csv`."""
        write_problems(folder / "problems.csv", self.problems)
        write_parquet(folder / "images.parquet", self.table)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote."""
        return cls(read_parquet(folder / "images.parquet"), tuple(read_problems(folder / "problems.csv")))


def collection_of_vectors(
    vectors: NDArray[np.generic], names: list[str] | None = None, problems: tuple[Problem, ...] = ()
) -> Collection:
    """Feature vectors (N, D) as a collection: in the order given, each called by its name or its row."""
    rows = range(len(vectors))
    table = {
        "path": [str(row) for row in rows] if names is None else [printable(name) for name in names],
        "hash": [hashlib.blake2b(np.ascontiguousarray(vectors[row]).data, digest_size=16).hexdigest() for row in rows],
        "width": np.full(len(vectors), vectors.shape[1]),
        "height": np.ones(len(vectors)),
        "gray": np.zeros(len(vectors), dtype=np.bool_),
        "copy_of": pa.nulls(len(vectors), pa.int64()),
        "number": np.arange(len(vectors)),
        "row": np.full(len(vectors), -1),
        "pixels": pa.nulls(len(vectors), pa.string()),
    }
    return Collection(pa.table(table).cast(SCHEMA), problems)


def collection_of_images(table: pa.Table, problems: list[Problem]) -> Collection:
    """The collection of all lines of `table` (SCHEMA without `copy_of`), sorted by content, with copies marked."""
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in ("hash", "path", "number")])
    table = table.take(order)
    hashes = table["hash"].combine_chunks()
    lines = np.arange(len(hashes), dtype=np.int64)
    is_copy = np.zeros(len(hashes), dtype=np.bool_)
    if len(hashes) > 1:
        is_copy[1:] = np.asarray(pc.equal(hashes[1:], hashes[:-1]))
    first = np.maximum.accumulate(np.where(is_copy, 0, lines))  # (N,) the line that opens each run of equal hashes
    copy_of = pa.array(first, mask=~is_copy)
    return Collection(
        table.append_column("copy_of", copy_of).select(SCHEMA.names).cast(SCHEMA), tuple(sorted(problems))
    )
