"""Images in, batches out. No label anywhere.

    store = ingest(source, size=160, folder=run / "images", leave_out=[run], progress=progress)

reads any source (folder, glob, list of paths as text, csv, parquet or Python list, tar, zip, array, .npy, .npz, list of
PIL images) in one pass: every file is hashed, fully decoded and stored at the working size. Then

    store.take(positions)          uint8 Tensor (B, C, S, S); C is 1 if every image is gray, else 3
    len(store), store.size, store.channels
    store.collection               the image table (`images.parquet`) and the problems (`problems.csv`)
    store.collection.numbers       place of each image in the source's listing, to give answers in the user's order
    store.collection.identity      a hash of all contents, for manifests and caches

Positions are ordered by content hash. `ingest` on a finished store reads nothing again.
"""

from spice.data.collection import Collection
from spice.data.ingest import ingest
from spice.data.problems import Problem, Reason
from spice.data.sources import SourceLike
from spice.data.store import ImageStore

__all__ = ["Collection", "ImageStore", "Problem", "Reason", "SourceLike", "ingest"]
