"""Batches of CIFAR's python form, which are pickles: read by an unpickler that knows numpy arrays and nothing else."""

import pickle
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spice.errors import UserError

# All that the pickle of an array names. The first module was renamed in numpy 2.
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}

# What a damaged or hostile pickle can raise while it is taken apart.
_DAMAGE = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
    struct.error,
)


class Batch(NamedTuple):
    """Images of one file, and their labels."""

    pixels: NDArray[np.uint8]  # (N, 3072)
    labels: NDArray[np.int64]  # (N,)


def read_batch(path: Path, *, labels: str) -> Batch:
    """The images of a batch file, with the labels found under the key `labels`."""
    try:
        with path.open("rb") as file:
            found = _OnlyArrays(file, encoding="bytes").load()
    except _DAMAGE as error:
        raise UserError(f"{path} is not a CIFAR batch: {error}") from error
    match found:
        case {b"data": np.ndarray() as pixels, **others} if pixels.dtype == np.uint8 and pixels.shape[1:] == (3072,):
            values = others.get(labels.encode())
            if isinstance(values, list) and all(isinstance(value, int) for value in values):
                return Batch(pixels, np.array(values, dtype=np.int64))
    raise UserError(f"{path} is not a CIFAR batch: it does not hold images of 3,072 bytes with a list of {labels}")


class _OnlyArrays(pickle.Unpickler):
    """Refuses every name but those of an array, before anything behind the name is imported or called."""

    def find_class(self, module_name: str, global_name: str) -> object:
        if (module_name, global_name) not in _ALLOWED:
            raise pickle.UnpicklingError(
                f"it names {module_name}.{global_name}, and only numpy arrays are read from pickles"
            )
        return super().find_class(module_name, global_name)
