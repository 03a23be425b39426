"""Large arrays as several files of at most 1 GiB, mapped into memory as one.

The bytes of a `.npy` file are cut into pieces: `features.npy`, `features.npy.001`, `features.npy.002`. In this order,
`cat` restores the file. An array that fits into one piece is an ordinary file.
"""

import ctypes
import mmap
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from spice.files import written_atomically

CAN_JOIN = os.name == "posix"  # whether several files can be mapped as one
PIECE_BYTES = 1 << 30 if CAN_JOIN else sys.maxsize  # a multiple of every system's page size
_PIECE = re.compile(r"\.\d{3,}$")
_MAP_FIXED = 0x10  # the same on Linux and macOS

Mode = Literal["r", "c", "r+"]  # as numpy's: read, change in memory only, write


class Mapped(NamedTuple):
    """A mapped array, and the function that writes its changes to disk."""

    array: NDArray[Any]
    flush: Callable[[], None]


def piece(path: Path, number: int) -> Path:
    """The name of a piece; the first has the name of the array."""
    return path if number == 0 else path.with_name(f"{path.name}.{number:03d}")


def array_name(name: str) -> str:
    """The name of the array that a file is a piece of: `features.npy.001` -> `features.npy`."""
    return _PIECE.sub("", name)


def further_pieces(path: Path) -> list[Path]:
    """The pieces of an array after its first one, in order."""
    found = (other for other in path.parent.glob(f"{path.name}.*") if array_name(other.name) == path.name)
    return sorted(found, key=lambda other: int(other.suffix[1:]))


def open_array(path: Path, mode: Mode = "r") -> NDArray[Any]:
    """The array that `save_array` or `reserve_array` wrote, read from disk as it is used."""
    return map_array(path, mode).array


def map_array(path: Path, mode: Mode = "r", *, first: Path | None = None) -> Mapped:
    """The array, and a function to flush changes. Pass the name of the `first` piece if the array is not complete."""
    first = first or path
    with first.open("rb") as file:
        shape, fortran_order, dtype = _read_header(file)
        start = file.tell()
    total = start + dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    if first.stat().st_size >= total:
        alone = np.load(first, mmap_mode=mode)
        return Mapped(alone, getattr(alone, "flush", lambda: None))
    content, flush = map_files([first, *further_pieces(path)], mode)
    if len(content) < total:
        raise ValueError(f"{path} is damaged: of {total:,} bytes there are {len(content):,}")
    found = content[start:total].view(dtype).reshape(shape, order="F" if fortran_order else "C")
    return Mapped(found, flush)


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array atomically: the first piece is written last, and the others are not read without it."""
    header = _header_bytes(array.dtype, array.shape)
    length = len(header) + array.nbytes
    if length <= PIECE_BYTES:
        with written_atomically(path) as temporary, temporary.open("wb") as file:
            np.save(file, array)
        _remove_further_pieces(path)
        return
    remove_array(path)
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    for number in reversed(range(-(-length // PIECE_BYTES))):
        begin, end = number * PIECE_BYTES, min((number + 1) * PIECE_BYTES, length)
        with written_atomically(piece(path, number)) as temporary, temporary.open("wb") as file:
            file.write(header[begin:end])
            file.write(content[max(begin - len(header), 0) : max(end - len(header), 0)].data)


def save_npz(path: Path, arrays: Mapping[str, NDArray[Any]], *, compress: bool = False) -> None:
    """Write several arrays by name as one `.npz` file, atomically."""
    with written_atomically(path) as temporary, temporary.open("wb") as file:
        (np.savez_compressed if compress else np.savez)(file, **arrays)  # type: ignore[arg-type]  # of other keywords


def reserve_array(path: Path, dtype: DTypeLike, shape: tuple[int, ...], *, first: Path) -> None:
    """Create the files of an array of zeros. To complete the array after filling it, rename `first` to `path`.

    A full disk is an OSError here: later, writing to a mapped file would kill the program without a message.
    """
    header = _header_bytes(np.dtype(dtype), shape)
    length = len(header) + np.dtype(dtype).itemsize * int(np.prod(shape, dtype=np.int64))
    _remove_further_pieces(path)
    files = [first, *(piece(path, number) for number in range(1, -(-length // PIECE_BYTES)))]
    for number, name in reversed(list(enumerate(files))):
        with written_atomically(name) as temporary, temporary.open("wb") as file:
            file.write(header if number == 0 else b"")
            size = min(PIECE_BYTES, length - number * PIECE_BYTES)
            file.truncate(size)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)


def remove_array(path: Path) -> None:
    """Delete all pieces."""
    path.unlink(missing_ok=True)
    _remove_further_pieces(path)


def map_files(paths: Sequence[Path], mode: Mode = "r") -> tuple[NDArray[np.uint8], Callable[[], None]]:
    """The bytes of several files, one after the other, as one array. All but the last must be whole pages long."""
    sizes = [path.stat().st_size for path in paths]
    if any(size % mmap.ALLOCATIONGRANULARITY for size in sizes[:-1]):
        raise ValueError(f"{paths[0]} is damaged: a piece of it is cut short")
    if not CAN_JOIN or sys.platform == "win32":
        if mode == "r+":
            raise ValueError(f"{paths[0]} is in several files, which this system can only read")
        return np.concatenate([np.fromfile(path, dtype=np.uint8) for path in paths]), lambda: None
    # Reserve one range of addresses and map every file to its part of it. Python unmaps all of it at once.
    access = mmap.PROT_READ | (0 if mode == "r" else mmap.PROT_WRITE)
    unused = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    reserved = mmap.mmap(-1, sum(sizes), flags=unused, prot=access)
    content = np.frombuffer(reserved, dtype=np.uint8)
    address = content.ctypes.data
    kind = (mmap.MAP_SHARED if mode == "r+" else mmap.MAP_PRIVATE) | _MAP_FIXED
    for path, size in zip(paths, sizes, strict=True):
        with path.open("r+b" if mode == "r+" else "rb") as file:
            _map_at(address, file, size, access, kind)
        address += size
    return content, reserved.flush


def _map_at(address: int, file: BinaryIO, size: int, access: int, kind: int) -> None:
    system = ctypes.CDLL(None, use_errno=True).mmap
    system.restype = ctypes.c_void_p
    system.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_ssize_t]
    if size and system(address, size, access, kind, file.fileno(), 0) != address:
        raise OSError(ctypes.get_errno(), f"{os.strerror(ctypes.get_errno())} (mapping {file.name})")


def _remove_further_pieces(path: Path) -> None:
    for other in further_pieces(path):
        other.unlink()


def _read_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, Fortran order, and type. numpy writes version 1 of the format unless the header is very long."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    found: tuple[tuple[int, ...], bool, np.dtype[Any]] = read(file)
    return found


def _header_bytes(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    file = BytesIO()
    description = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(file, {"descr": description, "fortran_order": False, "shape": shape})
    return file.getvalue()
