"""The folder of data sets: getting one, finding it, and reading it."""

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout
from platformdirs import user_data_dir

from spice.benchmark.datasets.catalog import Card, Dataset
from spice.benchmark.datasets.download import WAITS, download, is_archive, unpack
from spice.benchmark.datasets.readers import READERS
from spice.errors import UserError
from spice.files import written_atomically
from spice.progress import Progress, silent


def default_root() -> Path:
    """$SPICE_DATA, or else the platform's data folder."""
    if chosen := os.environ.get("SPICE_DATA"):
        return Path(chosen).expanduser()
    root = Path(user_data_dir("spice", appauthor=False))
    return root if sys.platform.startswith("linux") else root / "data"


def located(card: Card, root: Path) -> Path | None:
    """The folder of the data set, or None."""
    note = _note(card, root)
    noted = [Path(os.fsdecode(note.read_bytes()))] if note.is_file() else []
    return next((place for place in (*noted, root / card.name, *card.places) if place.is_dir()), None)


def load(card: Card, root: Path) -> Dataset:
    """The data set, which must be on this machine."""
    place = located(card, root)
    if place is None:
        raise UserError(f"{card.title} is not in {root}; get it with: spice datasets get {card.name}")
    return read(card, place)


def read(card: Card, folder: Path) -> Dataset:
    """The data set in `folder`, in any of its layouts."""
    try:
        dataset = next((dataset for name in card.layouts if (dataset := READERS[name](folder, card)) is not None), None)
    except OSError as error:
        raise UserError(f"{card.title} cannot be read from {folder}: {error}") from error
    if dataset is None:
        raise UserError(f"{folder} does not contain {card.title} in a known layout; see docs/datasets.md")
    return dataset


def get(
    card: Card, *, source: Path | None = None, root: Path, progress: Progress = silent, waits: Sequence[float] = WAITS
) -> Dataset:
    """The data set, downloaded if needed, or from a local `source`.

    An archive is unpacked into `root`. A folder is used where it is; a note in `root` records its path.
    """
    if source is None and located(card, root) is not None:
        return load(card, root)
    if source is None and not card.files:
        raise UserError(f"{card.title} cannot be downloaded: {card.advice}")
    with _locked(card, root):
        if source is None:
            downloads = root / "downloads" / card.name
            files = [download(remote, downloads, progress=progress, waits=waits) for remote in card.files]
            _install(card, files, root, progress)
            shutil.rmtree(downloads, ignore_errors=True)
        elif source.is_dir():
            _require_data_set(card, source, called=str(source))
            with written_atomically(_note(card, root)) as temporary:
                temporary.write_bytes(os.fsencode(source.resolve()))
        elif source.is_file():
            _install(card, [source], root, progress)
        else:
            raise UserError(f"there is no file or folder {source}")
    return load(card, root)


def _install(card: Card, files: Sequence[Path], root: Path, progress: Progress) -> None:
    """Unpack or copy the files. They replace the data set only if they contain it."""
    place, unpacked = root / card.name, root / f".{card.name}.partial"
    try:
        shutil.rmtree(unpacked, ignore_errors=True)  # left by a killed process
        unpacked.mkdir()
        for file in files:
            if is_archive(file):
                unpack(file, unpacked, progress=progress)
            else:
                shutil.copyfile(file, unpacked / file.name)
        _require_data_set(card, unpacked, called=", ".join(map(str, files)))
        shutil.rmtree(place, ignore_errors=True)
        unpacked.replace(place)
        _note(card, root).unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{card.title} cannot be installed in {root}: {error}") from error
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)


def _require_data_set(card: Card, folder: Path, *, called: str) -> None:
    """Raise a UserError unless the folder contains this data set, and not another one with the same layout."""
    try:
        train = read(card, folder).train
        first = train.truth().labels[: len(card.first_labels)]
    except UserError as error:
        raise UserError(f"{called} cannot be used: {str(error).replace(str(folder), 'it')}") from error
    if not len(train):
        raise UserError(f"{called} contains no images of {card.title}")
    if not np.array_equal(first, card.first_labels):
        raise UserError(f"{called} has the layout of {card.title}, but contains other images")


def _note(card: Card, root: Path) -> Path:
    return root / f"{card.name}.place"


@contextmanager
def _locked(card: Card, root: Path) -> Iterator[None]:
    """Let one process at a time get a data set. The lock ends with the process, even if it is killed."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = FileLock(root / f".{card.name}.lock").acquire(timeout=0)
    except Timeout:
        raise UserError(f"another process is downloading {card.title}; wait for it to finish") from None
    except OSError as error:
        raise UserError(f"cannot write to {root} ({error.strerror}); choose another folder with --to") from error
    with lock:
        yield
