"""Feature vectors from a file, made by any model (paper III-A: "any ... methods ... can be applied").

`.npy`: one row per image, in the order of the images' sorted paths. `.npz` with `features` and `paths`, or `.parquet`
with the columns `path` and `features`: rows are matched to images by path.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from pyarrow import parquet
from torch import Tensor

from spice.errors import UserError
from spice.settings import IMAGENET, Normalization


class GivenFeatures:
    """Precomputed features: it knows those of its own images and of no others."""

    module = None
    # The size at which images are shown; the vectors do not depend on it.
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
        raise UserError(f"{self.name} holds vectors and no model, so images cannot be encoded")

    feature_map = encode

    def fingerprint(self) -> str:
        return hashlib.blake2b(self.vectors.numpy().tobytes(), digest_size=16).hexdigest()


class NoEncoder:
    """Takes the place of an encoder where there are features and no images."""

    name = "none"
    size = 1
    channels = 1
    normalization = Normalization(mean=(0.0,), std=(1.0,))
    module = None

    def __init__(self, features: int) -> None:
        self.features = features

    def encode(self, images: Tensor) -> Tensor:  # noqa: ARG002
        raise UserError("this model was made from features: give it features (N, D), not images")

    feature_map = encode

    def fingerprint(self) -> str:
        return ""


def _read(path: Path) -> tuple[Tensor, list[str] | None]:
    """The vectors, and the paths of their images if the file has them."""
    if not path.is_file():
        raise UserError(f"there is no file {path} to read features from")
    try:
        vectors, paths = _read_table(path)
    except (ValueError, KeyError, OSError, EOFError) as error:
        raise UserError(f"features cannot be read from {path}: {' '.join(str(error).split())[:200]}") from error
    if paths is not None and len(paths) != len(vectors):
        raise UserError(f"{path} has {len(vectors):,} vectors but {len(paths):,} paths")
    for name, times in Counter(paths).most_common(1):
        if times > 1:
            raise UserError(f"{path} names {name} more than once")
    if vectors.ndim != 2 or not len(vectors) or vectors.dtype.kind not in "fiu":
        raise UserError(
            f"{path} holds {vectors.dtype} of shape {vectors.shape}; expected numbers of shape (images, features)"
        )
    features = torch.from_numpy(vectors.astype(np.float32))
    bad = int((~features.isfinite()).any(dim=1).sum())
    if bad:
        raise UserError(f"{path} has {bad:,} vectors with a value that is not finite")
    return features, paths


def _read_table(path: Path) -> tuple[NDArray[np.generic], list[str] | None]:
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False), None
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return file["features"], file["paths"].astype(str).tolist() if "paths" in file else None
    if path.suffix == ".parquet":
        table = parquet.read_table(path, columns=["path", "features"])
        return np.stack(table["features"].to_numpy()), table["path"].to_pylist()
    raise UserError(f"{path} must end in one of .npy, .npz, .parquet to be read as features")
