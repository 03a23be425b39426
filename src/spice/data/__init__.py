"""Images in, batches out. No label anywhere.

    store = ingest(source, size=160, folder=run / "images", leave_out=[run], progress=progress)

reads any source (folder, glob, list of paths as text, csv, parquet or Python list, tar, zip, array, .npy, .npz, list of
PIL images) in one pass: every file is hashed, fully decoded and kept at the working size. Then

    store.take(positions)          uint8 Tensor (B, C, S, S); C is 1 if every image is gray, else 3
    len(store), store.size, store.channels
    store.collection               the image table (`images.parquet`) and the problems (`problems.csv`)
    store.collection.numbers       place of each image in the source's listing, to give answers in the user's order
    store.collection.identity      a hash of all contents, for manifests and caches

`open_store(folder)` opens a finished store again, `scan(source)` looks at a source without keeping anything. Positions
are ordered by content hash. `batches` draws positions, `generator` the randomness for everything else.
"""

from spice.data.batches import Batch, batches
from spice.data.collection import Collection
from spice.data.ingest import ingest
from spice.data.problems import Problem, Reason, write_problems
from spice.data.scan import scan
from spice.data.sources import SourceLike
from spice.data.store import ImageStore, open_store
from spice.randomness import generator

__all__ = [
    "Batch",
    "Collection",
    "ImageStore",
    "Problem",
    "Reason",
    "SourceLike",
    "batches",
    "generator",
    "ingest",
    "open_store",
    "scan",
    "write_problems",
]
