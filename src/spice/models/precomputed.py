"""Feature vectors from a file, computed by any model (paper III-A: "any ... methods ... can be applied").

`.npy`: one row per image, in the order of the images' sorted paths. `.npz` with `features` and `paths`, or `.parquet`
with the columns `path` and `features`: rows are matched to images by path.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spice.errors import UserError, one_line
from spice.settings import IMAGENET, Normalization
from spice.tables import read_parquet

# Squares of values outside this range overflow or underflow in float32.
LARGEST_VALUE, SMALLEST_VALUE = 1e15, 1e-15


class PrecomputedFeatures:
    """Precomputed features of a fixed set of images."""

    module = None
    # The size at which pictures are shown; the vectors do not depend on it.
    size = 160
    channels = 3
    normalization = IMAGENET

    def __init__(self, path: Path) -> None:
        self.name = f"features:{path}"
        self.vectors, self.paths = _read(path)
        self.features = self.vectors.shape[1]

    def vectors_of(self, paths: Sequence[str]) -> Tensor:
        """The features of these images, in this order (N, D)."""
        if len(paths) != len(self.vectors):
            raise UserError(f"{self.name} holds {len(self.vectors):,} vectors, but there are {len(paths):,} images")
        known = self.paths if self.paths is not None else sorted(paths)
        row = {path: number for number, path in enumerate(known)}
        missing = [path for path in paths if path not in row]
        if missing:
            raise UserError(f"{self.name} has no vector for {len(missing):,} of the images, among them {missing[0]}")
        return self.vectors[[row[path] for path in paths]]

    def encode(self, images: Tensor) -> Tensor:  # noqa: ARG002
        raise UserError(f"{self.name} contains vectors, not a model, so it cannot encode images")

    feature_map = encode

    def fingerprint(self) -> str:
        return hashlib.blake2b(self.vectors.numpy().tobytes(), digest_size=16).hexdigest()


class NoEncoder:
    """The encoder of a run that was given features instead of images."""

    name = "none"
    size = 1
    channels = 1
    normalization = Normalization(mean=(0.0,), std=(1.0,))
    module = None

    def __init__(self, features: int) -> None:
        self.features = features

    def encode(self, images: Tensor) -> Tensor:  # noqa: ARG002
        self.refuse()

    def refuse(self) -> NoReturn:
        raise UserError("this model was trained on feature vectors; pass features (N, D), not images")

    feature_map = encode

    def fingerprint(self) -> str:
        return ""


def checked_vectors(vectors: NDArray[np.generic], name: str) -> Tensor:
    """The vectors (N, D) in float32; a UserError if they cannot be clustered. Some may be zero, as for blank images."""
    if vectors.ndim != 2 or not vectors.size or vectors.dtype.kind not in "bfiu":
        raise UserError(
            f"{name} holds {vectors.dtype} of shape {vectors.shape}; expected numbers of shape (images, features)"
        )
    with np.errstate(over="ignore"):  # values too large for float32 become infinite and are refused below
        features = torch.from_numpy(vectors.astype(np.float32))
    largest = torch.maximum(features.amax(dim=1), -features.amin(dim=1))  # (N,); NaN propagates
    bad = int((~(largest <= LARGEST_VALUE)).sum())
    if bad:
        raise UserError(
            f"{name} has {bad:,} vectors with a value that is not finite or above {LARGEST_VALUE:g}: "
            "compute these vectors again, or scale all of them down"
        )
    peak = abs(float(largest.max()))
    if peak < SMALLEST_VALUE:
        raise UserError(
            f"{name} holds no value above {SMALLEST_VALUE:g} (the largest is {peak:.3g}), so all images look the same: "
            "compute the vectors again, or scale all of them up"
        )
    return features


def _read(path: Path) -> tuple[Tensor, list[str] | None]:
    """The vectors, and the paths of their images if the file contains them."""
    if not path.is_file():
        raise UserError(f"there is no file {path} to read features from")
    try:
        vectors, paths = _read_table(path)
    except UserError:
        raise
    except Exception as error:  # a damaged file raises errors of zipfile, zlib, Python's tokenizer, ...
        raise UserError(f"cannot read features from {path} ({one_line(error)}); save the file again") from error
    if paths is not None and len(paths) != len(vectors):
        raise UserError(f"{path} has {len(vectors):,} vectors but {len(paths):,} paths")
    for name, times in Counter(paths).most_common(1):
        if times > 1:
            raise UserError(f"{path} names {name} more than once")
    return checked_vectors(vectors, str(path)), paths


def _read_table(path: Path) -> tuple[NDArray[np.generic], list[str] | None]:
    if path.suffix == ".npy":
        # Memory-mapped, so that a header that declares more data than the file has is an error, not a huge allocation.
        return np.load(path, mmap_mode="r", allow_pickle=False), None
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return file["features"], file["paths"].astype(str).tolist() if "paths" in file else None
    if path.suffix == ".parquet":
        table = read_parquet(path, ["path", "features"])
        return np.stack(table["features"].to_numpy()), table["path"].to_pylist()
    raise UserError(f"{path} must end in one of .npy, .npz, .parquet to be used as features")
