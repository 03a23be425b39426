"""One growing file of equally large uint8 images, and its memory map."""

import os
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# Few large writes: after each the main thread must wait for its turn among the threads that decode.
_BYTES_AT_ONCE = 1 << 20
# So much goes to the disk while more images are decoded, that the last of it need not be waited for so long.
_BYTES_AHEAD = 8 << 20


class PixelFile:
    """Images (C, S, S) appended to a file. Written through file handles: a full disk is an error there, not a crash."""

    def __init__(self, path: Path, channels: int, size: int, *, rows: int) -> None:
        """Go on after the first `rows` images; what a killed run wrote beyond them is dropped."""
        self.rows = rows
        self.row_bytes = channels * size * size
        path.touch()
        if path.stat().st_size < rows * self.row_bytes:
            raise ValueError(f"{path} is shorter than the {rows} images it should hold")
        self._file = path.open("r+b", buffering=_BYTES_AT_ONCE)
        self._file.truncate(rows * self.row_bytes)
        self._file.seek(rows * self.row_bytes)
        self._disk = ThreadPoolExecutor(1)
        self._syncing: Future[None] | None = None
        self._synced = self.bytes

    @property
    def bytes(self) -> int:
        return self.rows * self.row_bytes

    def append(self, pixels: NDArray[np.uint8]) -> int:
        """Add one image; the number of its row."""
        self._file.write(pixels.data)
        self.rows += 1
        if self.bytes - self._synced >= _BYTES_AHEAD and (self._syncing is None or self._syncing.done()):
            self._wait()
            self._syncing = self._disk.submit(os.fsync, self._file.fileno())
            self._synced = self.bytes
        return self.rows - 1

    def sync(self) -> None:
        """Return when all that was appended is on the disk."""
        self._wait()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._synced = self.bytes

    def _wait(self) -> None:
        """Wait for the disk, and raise its error, which it reports only once."""
        syncing, self._syncing = self._syncing, None
        if syncing is not None:
            syncing.result()

    def close(self) -> None:
        self._disk.shutdown()
        with suppress(OSError):  # all that counts was synced before; on a full disk the rest has nowhere to go
            self._file.close()


def mapped(path: Path, channels: int, size: int) -> NDArray[np.uint8]:
    """The file as an array (rows, C, S, S) that is read from disk as it is used."""
    rows = path.stat().st_size // (channels * size * size)
    if rows == 0:  # an empty file cannot be mapped
        return np.empty((0, channels, size, size), dtype=np.uint8)
    return np.memmap(path, dtype=np.uint8, mode="r", shape=(rows, channels, size, size))
