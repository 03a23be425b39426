"""Step 1: look at the source. What has not changed is not read again; what has changed must not go unseen."""

from pathlib import Path

import numpy as np

from spice.data import ImageStore, SourceLike, ingest
from spice.data.collection import collection_of_vectors
from spice.engine.run import Run
from spice.models.given_features import checked_vectors
from spice.pipeline.work import Inputs, Work
from spice.runs.records import ScanResult

STORE = "store"


def read_inputs(
    source: SourceLike, out: Path, *, size: int, run: Run, extra: SourceLike | None = None, rescan: bool = False
) -> Inputs:
    """The images of `source`, decoded into the store of the run folder `out`; or its vectors, if it is an (N, D) array.

    Under several processes the first one decodes, and the others then find everything decoded.
    """
    if isinstance(source, np.ndarray) and source.ndim == 2:
        return Inputs(collection_of_vectors(source), None, checked_vectors(source, "the array of features"))

    def decoded(images: SourceLike, name: str) -> ImageStore:
        folder = out / STORE / name
        if not run.processes.first:
            run.processes.barrier()
        again = rescan and run.processes.first
        store = ingest(images, size=size, folder=folder, leave_out=[out], rescan=again, progress=run.progress)
        if run.processes.first:
            run.processes.barrier()
        return store

    store = decoded(source, str(size))
    return Inputs(store.collection, store, extra=None if extra is None else decoded(extra, f"extra-{size}"))


def scan(work: Work, run: Run) -> ScanResult:  # noqa: ARG001
    """The table of images, and the files that could not be used."""
    found = work.inputs.collection
    found.save(work.folders["scan"])
    copies = int((found.copy_of >= 0).sum())
    return ScanResult(images=len(found), problems=len(found.problems), copies=copies, identity=found.identity)
