"""Write files of features batch by batch, so that a stopped run can resume (see `views`).

Shapes: N images, U of them distinct, V views, D feature width.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spice.arrays import map_array, remove_array, reserve_array, save_array
from spice.engine.parallel import parallel_map
from spice.engine.run import Run
from spice.errors import UserError
from spice.files import replace, write_text
from spice.settings import ViewSettings

Kind = Literal["plain", "weak", "strong"]
MakeRows = Callable[[Kind, Tensor, torch.Generator], Tensor]
FOLDER, ROWS = "views", "rows.npy"

# Images encoded at once. Results depend on it: the random views of an image depend on its position in the batch.
BATCH = 64
SAVE_EVERY_SECONDS = 5.0


class _Layout(NamedTuple):
    """The images to encode for a file, and the rows that each image fills: its own and those of its exact copies."""

    images: Tensor  # (U,)
    starts: Tensor  # (U,)
    ends: Tensor  # (U,)

    @property
    def length(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    @property
    def batches(self) -> int:
        """Batches per view."""
        return -(-len(self.images) // BATCH)

    def batch(self, number: int) -> "_Layout":
        return _Layout(*(part[number * BATCH : (number + 1) * BATCH] for part in self))


class ViewFiles:
    """Files of features while they are filled batch by batch; a batch is marked only after it has been written.

    Args:
        paths: the file of each kind.
        notes: a folder of these files' own, for what is unfinished.
        settings: of weak and strong views. None: the file is of the plain images, and does not depend on the seed.
    """

    def __init__(
        self,
        paths: Mapping[Kind, Path],
        notes: Path,
        settings: ViewSettings | None,
        shape: tuple[int, int],
        run: Run,
        *,
        about: str,
        distinct: NDArray[np.int64] | None = None,
    ) -> None:
        self.paths, self.notes, self.run = paths, notes, run
        images, self.width = shape
        firsts = torch.from_numpy(np.arange(images) if distinct is None else distinct)  # (U,)
        self.layout = _Layout(firsts, firsts, torch.cat([firsts[1:], torch.tensor([images])]))
        self.rows = None if settings is None else _sampled_rows(images, settings, run)
        if self.rows is not None:
            place = torch.arange(len(self.rows))
            self.layout = _Layout(torch.from_numpy(self.rows), place, place + 1)
        self.views: dict[Kind, int] = {"plain": 1}
        if settings is not None:
            self.views = {"weak": settings.weak, "strong": settings.strong}
        # The plain features are also read elsewhere: they stay in full precision.
        self.dtype = "float32" if settings is None else settings.precision
        drawn = None if settings is None else [settings.model_dump(), run.seed]
        key = json.dumps([about, drawn, shape, BATCH])
        self.key = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()

    def fill(self, make_rows: MakeRows) -> None:
        """Compute all that is missing."""
        processes = self.run.processes
        if processes.first:
            self._reserve()
        processes.barrier()
        for kind, path in self.paths.items():
            if not path.exists():
                self._fill(kind, make_rows)
                processes.barrier()
                if processes.first:
                    partial, marks = self._unfinished(kind)
                    replace(partial, path)
                    marks.unlink()
                processes.barrier()
            self._report(kind, self.layout.length * self.views[kind])

    def _reserve(self) -> None:
        """Keep the files of an earlier run if they have the same identity; reserve space for the others."""
        note = self.notes / "identity"
        if not (note.exists() and note.read_text(encoding="utf-8") == self.key):
            shutil.rmtree(self.notes, ignore_errors=True)
            for path in self.paths.values():
                remove_array(path)
            self.notes.mkdir(parents=True)
        for kind, path in self.paths.items():
            partial, marks = self._unfinished(kind)
            if path.exists() or partial.exists():
                continue
            save_array(marks, np.zeros(self.views[kind] * self.layout.batches, dtype=np.uint8))
            images = self.layout.length
            shape = (images, self.width) if kind == "plain" else (self.views[kind], images, self.width)
            try:
                reserve_array(path, self.dtype, shape, first=partial)
            except OSError as error:
                size = np.dtype(self.dtype).itemsize * np.prod(shape, dtype=np.int64) / 1e9
                raise UserError(
                    f"not enough disk space in {path.parent} for {size:.2f} GB of features ({error.strerror})"
                ) from error
        if self.rows is not None:
            save_array(self.notes / ROWS, self.rows)
        write_text(note, self.key)

    def _fill(self, kind: Kind, make_rows: MakeRows) -> None:
        """Compute this process's missing batches."""
        layout = self.layout
        partial, done_marks = self._unfinished(kind)
        table, flush = map_array(self.paths[kind], "r+", first=partial)
        marks = np.lib.format.open_memmap(done_marks, mode="r+")
        by_view = table.reshape(-1, layout.length, self.width)  # (V, N, D)
        written: list[int] = []
        saved_at = time.monotonic()

        def save() -> None:
            # Batches reach the disk before their marks, so that after a power cut every marked batch is there.
            flush()
            marks[written] = 1
            marks.flush()
            written.clear()

        def compute(number: int) -> Tensor:
            view, batch = divmod(number, layout.batches)
            return make_rows(kind, layout.batch(batch).images, self.run.generator("views", kind, view, batch)).cpu()

        own = range(self.run.processes.rank, len(marks), self.run.processes.count)
        missing = [number for number in own if not marks[number]]
        for number, rows in zip(missing, parallel_map(compute, missing), strict=True):
            view, batch = divmod(number, layout.batches)
            _, starts, ends = layout.batch(batch)
            end = int(ends[-1])
            by_view[view, int(starts[0]) : end] = rows.repeat_interleave(ends - starts, dim=0).numpy()
            written.append(number)
            if time.monotonic() - saved_at > SAVE_EVERY_SECONDS:
                save()
                saved_at = time.monotonic()
            self._report(kind, view * layout.length + end)
        save()

    def _report(self, kind: Kind, done: int) -> None:
        # Each kind is a task of its own, because speeds differ: features take minutes, views made from them a moment.
        if self.run.processes.first:
            task = "computing features" if kind == "plain" else f"{kind} views"
            self.run.progress(task, done, self.layout.length * self.views[kind])

    def _unfinished(self, kind: Kind) -> tuple[Path, Path]:
        """The file of a kind before it is complete, and the marks of its finished batches."""
        return self.notes / f"{kind}.partial", self.notes / f"{kind}.marks"


def view_paths(folder: Path) -> dict[Kind, Path]:
    """Where the features of weak and of strong views are."""
    return {"weak": folder / FOLDER / "weak.npy", "strong": folder / FOLDER / "strong.npy"}


def folder_of(run: Run) -> Path:
    """The folder of a run, which must have one."""
    if run.folder is None:
        raise ValueError("views are written to files: give the run a folder")
    return run.folder


def _sampled_rows(images: int, settings: ViewSettings, run: Run) -> NDArray[np.int64] | None:
    """The images that get views, in order; None: all."""
    if settings.sample is None or settings.sample >= images:
        return None
    sample = torch.randperm(images, generator=run.generator("views", "sample"))[: settings.sample]
    rows: NDArray[np.int64] = sample.sort().values.numpy()
    return rows
