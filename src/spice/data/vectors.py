"""Feature vectors that are clustered without an encoder, with or without pictures.

Shapes: N images, D feature width.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spice.data.columns import PATH_COLUMNS, VECTOR_COLUMNS, find_column
from spice.data.sources import Files, Source
from spice.errors import UserError
from spice.progress import log
from spice.tables import read_parquet


@dataclass(frozen=True, eq=False)
class Vectors:
    """One vector per image, in the order given."""

    values: NDArray[np.generic]  # (N, D)
    label: str = "the array of features"
    names: list[str] | None = None  # None: each is called by its row
    pictures: Source | None = None  # for display only

    def __len__(self) -> int:
        return len(self.values)


def read_vectors(path: Path) -> Vectors | None:
    """The vectors in a .npy, .npz or .parquet file; None for any other file, which may hold images.

    `.npy`: an array (N, D). `.npz`: an array called `features`, `embedding`, ..., or the only one of two dimensions,
    and paths, if it has them. `.parquet`: such a column of lists, and a column of paths, if it has one.
    """
    reader = {".npy": _read_npy, ".npz": _read_npz, ".parquet": _read_parquet}.get(path.suffix.lower())
    if reader is None or not path.is_file():
        return None
    try:
        found = reader(path)
    except UserError:
        raise
    except Exception:  # noqa: BLE001 - reading it as images reports what is wrong
        return None
    if found is not None:
        note = "" if found.pictures is None else "; its paths are for the pictures"
        log.info("%s contains %s vectors, used as features%s", path, f"{len(found):,}", note)
    return found


def with_pictures(values: NDArray[np.generic], paths: list[str] | None, *, label: str, base: Path | None) -> Vectors:
    """Vectors with the paths of their images, relative ones from `base`."""
    if paths is None:
        return Vectors(values, label)
    if len(paths) != len(values):
        raise UserError(f"{label} has {len(values):,} vectors but {len(paths):,} paths")
    return Vectors(values, label, paths, Files(paths, label=label, base=base))


def stack(rows: list[Any], label: str) -> NDArray[np.generic]:
    """Rows of numbers, all equally long, as an array (N, D)."""
    try:
        found = np.stack([np.asarray(row, dtype=np.float32) for row in rows])
    except (TypeError, ValueError):
        raise UserError(f"{label} must contain one vector of numbers per row, all of the same length") from None
    if found.ndim != 2:
        raise UserError(f"{label} must contain one vector per row, but contains arrays of shape {found.shape[1:]}")
    return found


def _read_npy(path: Path) -> Vectors | None:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return Vectors(np.asarray(array), str(path)) if array.ndim == 2 else None


def _read_npz(path: Path) -> Vectors | None:
    with np.load(path, allow_pickle=False) as file:
        arrays: Mapping[str, NDArray[np.generic]] = {name: file[name] for name in file.files}
    if any(array.ndim in (3, 4) for array in arrays.values()):
        return None
    tables = [name for name, array in arrays.items() if array.ndim == 2 and array.dtype.kind in "fiu"]
    chosen = find_column(tables, VECTOR_COLUMNS) or (tables[0] if len(tables) == 1 else None)
    if chosen is None:
        return None
    names = [name for name, array in arrays.items() if array.ndim == 1 and array.dtype.kind in "US"]
    listed = find_column(names, ("paths", *PATH_COLUMNS))
    paths = None if listed is None else arrays[listed].astype(str).tolist()
    return with_pictures(arrays[chosen], paths, label=str(path), base=path.parent)


def _read_parquet(path: Path) -> Vectors | None:
    schema = pq.read_schema(path)
    lists = {field.name: field.type.value_type for field in schema if _is_list(field.type)}
    floats = [name for name, kind in lists.items() if pa.types.is_floating(kind)]
    chosen = find_column(lists, VECTOR_COLUMNS) or (floats[0] if len(floats) == 1 else None)
    if chosen is None:
        return None
    listed = find_column(set(schema.names) - {chosen}, PATH_COLUMNS)
    table = read_parquet(path, [chosen, *([] if listed is None else [listed])])
    paths = None if listed is None else ["" if name is None else str(name) for name in table[listed].to_pylist()]
    return with_pictures(
        stack(table[chosen].to_pylist(), f"the column {chosen} of {path}"), paths, label=str(path), base=path.parent
    )


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))
