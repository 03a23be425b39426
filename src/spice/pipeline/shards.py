"""Features computed by other machines, in shards: files that are written once and looked up by content hash.

Shapes: n images in a shard, B images taken, D feature width.
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spice.arrays import save_array
from spice.data import Collection
from spice.errors import UserError

_HASHES = ".hashes.npy"


class FeatureShards:
    """The shards in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, hashes: list[str], features: NDArray[np.float32]) -> None:
        """Write one more shard: features (n, D) of images with these hashes. Once this returns, it is safe on disk."""
        number = 1 + max((int(path.name.split(".")[0]) for path in self.folder.glob(f"*{_HASHES}")), default=-1)
        # The hashes last: a shard without them does not count.
        save_array(self.folder / f"{number:06d}.npy", features)
        save_array(self.folder / f"{number:06d}{_HASHES}", np.array(hashes, dtype="S"))

    def of(self, collection: Collection) -> "ShardedFeatures":
        """The features of a collection's images, by position."""
        return ShardedFeatures(self.folder, collection)


class ShardedFeatures:
    """Features by an image's position in its collection, read from the shards as they are needed."""

    def __init__(self, folder: Path, collection: Collection) -> None:
        paths = sorted(folder.glob(f"*{_HASHES}"))
        known = [np.load(path) for path in paths]
        self._shards = [np.load(folder / path.name.replace(_HASHES, ".npy"), mmap_mode="r") for path in paths]
        hashes = np.concatenate(known) if known else np.empty(0, dtype="S32")
        order = np.argsort(hashes, kind="stable")
        wanted = np.array(collection.table["hash"].to_pylist(), dtype="S")
        place = np.searchsorted(hashes[order], wanted)
        found = order[np.minimum(place, len(hashes) - 1)] if len(hashes) else np.zeros(len(wanted), dtype=np.int64)
        missing = len(wanted) if not len(hashes) else int((hashes[found] != wanted).sum())
        if missing:
            raise UserError(f"{folder} has no features for {missing:,} images; recompute them with --rescan")
        ends = np.cumsum([len(part) for part in known])
        self._shard = np.searchsorted(ends, found, side="right")  # (N,)
        self._row = found - (ends - [len(part) for part in known])[self._shard]  # (N,)

    def take(self, positions: Tensor) -> Tensor:
        """(B,) -> (B, D)."""
        chosen = positions.numpy()
        features = torch.empty(len(chosen), self._shards[0].shape[1])
        for shard in np.unique(self._shard[chosen]):
            here = np.flatnonzero(self._shard[chosen] == shard)
            features[torch.from_numpy(here)] = torch.from_numpy(self._shards[shard][self._row[chosen[here]]])
        return features
