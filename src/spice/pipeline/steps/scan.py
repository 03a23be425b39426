"""Step 1: read the images. Unchanged files are not read again."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from spice.data import ImageStore, Problem, ingest
from spice.data.adapters import Adapted
from spice.data.collection import collection_of_vectors
from spice.data.decode import DECODING
from spice.data.images import Images, Tiles, VectorPictures
from spice.data.sources import Source
from spice.data.vectors import Vectors
from spice.engine.run import Run
from spice.errors import NothingReadableError
from spice.models.encoders import Encoder, precision_of
from spice.models.precomputed import checked_vectors
from spice.pipeline.on_ray import RayEngine
from spice.pipeline.shards import FeatureShards
from spice.pipeline.work import Inputs, Work
from spice.progress import log
from spice.runs import key_of
from spice.runs.folder import STORE
from spice.runs.records import ScanResult

PICTURES = "pictures"
# Pixels on a side of the pictures that are shown for vectors.
PICTURE_SIZE = 160


def read_inputs(
    source: Adapted, out: Path, *, size: int, run: Run, extra: str | None = None, rescan: bool = False
) -> Inputs:
    """The images of `source`, decoded into the store of the run folder `out`; or its vectors, with their pictures.

    Under several processes the first one decodes, and the others then find everything decoded.
    """

    def decoded(images: Adapted, name: str, size: int) -> ImageStore:
        folder = out / STORE / name
        if not run.processes.first:
            run.processes.barrier()
        again = rescan and run.processes.first
        store = ingest(images, size=size, folder=folder, leave_out=[out], rescan=again, progress=run.progress)
        if run.processes.first:
            run.processes.barrier()
        return store

    if isinstance(source, Vectors):
        return _vector_inputs(source, lambda images: decoded(images, PICTURES, PICTURE_SIZE))
    store = decoded(source, str(size), size)
    return Inputs(store.collection, store, extra=None if extra is None else decoded(extra, f"extra-{size}", size))


def read_embedded(
    source: Adapted, out: Path, *, encoder: Encoder, address: str | None, run: Run, rescan: bool = False
) -> Inputs:
    """The images of `source`, decoded and embedded on a Ray cluster. Pixels are not stored but decoded on demand.

    Under several processes only the first one uses the cluster, and the others then find everything embedded.
    """
    folder = embedded_folder(out, encoder)
    shards = FeatureShards(folder / "features")
    engine, first = RayEngine(address, encoder, shards), run.processes.first
    if not first:
        run.processes.barrier()
    store = ingest(
        source, size=encoder.size, folder=folder, limit_bytes=0, leave_out=[out], rescan=rescan and first,
        examine_all=engine.examine_all if first else None, progress=run.progress,
    )  # fmt: skip
    if first:
        run.processes.barrier()
    return Inputs(store.collection, store, embedded=shards.of(store.collection))


def embedded_folder(out: Path, encoder: Encoder) -> Path:
    """The folder of features computed on a Ray cluster, for one encoder and precision."""
    key = key_of(encoder.name, encoder.fingerprint(), precision_of(encoder), encoder.size, DECODING)
    return out / STORE / f"embedded-{key}"


def _vector_inputs(given: Vectors, decoded: Callable[[Source], ImageStore]) -> Inputs:
    """Vectors are clustered even if their pictures cannot be read; those are listed as problems."""
    pictures: Images = Tiles(len(given))
    problems: tuple[Problem, ...] = ()
    if given.pictures is not None:
        try:
            store = decoded(given.pictures)
        except NothingReadableError as error:
            log.info("no pictures: %s", error)
        else:
            problems = store.collection.problems
            pictures = VectorPictures(store, store.collection.numbers, len(given))
    vectors = checked_vectors(given.values, given.label)
    return Inputs(collection_of_vectors(given.values, given.names, problems), None, vectors, pictures=pictures)


def scan(work: Work, run: Run) -> ScanResult:  # noqa: ARG001
    """The table of images, and the files that could not be used."""
    found = work.inputs.collection
    found.save(work.folders["scan"])
    copies = int((found.copy_of >= 0).sum())
    skipped = Counter(str(problem.reason) for problem in found.problems)
    return ScanResult(
        images=len(found), problems=len(found.problems), skipped=skipped, copies=copies, identity=found.identity
    )
