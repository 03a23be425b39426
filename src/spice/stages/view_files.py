"""Write the files of views batch by batch, so that a stopped run can resume (see `views`).

Shapes: N images, U of them distinct, V views, D feature width.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable
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
FEATURES, FOLDER, ROWS = "features.npy", "views", "rows.npy"

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
    """The three files while they are filled. A batch is marked as done only after it has been written."""

    def __init__(
        self,
        settings: ViewSettings,
        shape: tuple[int, int],
        run: Run,
        *,
        about: str,
        distinct: NDArray[np.int64] | None = None,
    ) -> None:
        self.run, self.folder = run, folder_of(run)
        images, self.width = shape
        firsts = torch.from_numpy(np.arange(images) if distinct is None else distinct)  # (U,)
        whole = _Layout(firsts, firsts, torch.cat([firsts[1:], torch.tensor([images])]))
        self.rows = _sampled_rows(images, settings, run)
        part = whole
        if self.rows is not None:
            place = torch.arange(len(self.rows))
            part = _Layout(torch.from_numpy(self.rows), place, place + 1)
        self.layouts: dict[Kind, _Layout] = {"plain": whole, "weak": part, "strong": part}
        self.views: dict[Kind, int] = {"plain": 1, "weak": settings.weak, "strong": settings.strong}
        # Plain features are also used elsewhere, so they stay in full precision.
        self.dtypes: dict[Kind, str] = {"plain": "float32", "weak": settings.precision, "strong": settings.precision}
        key = json.dumps([about, settings.model_dump(), run.seed, shape, BATCH])
        self.key = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()

    def fill(self, make_rows: MakeRows) -> None:
        """Compute everything that is missing."""
        processes = self.run.processes
        if processes.first:
            self._reserve()
        processes.barrier()
        for kind, path in view_paths(self.folder).items():
            if not path.exists():
                self._fill(kind, make_rows)
                processes.barrier()
                if processes.first:
                    partial, marks = self._unfinished(kind)
                    replace(partial, path)
                    marks.unlink()
                processes.barrier()
            self._report(kind, self.layouts[kind].length * self.views[kind])

    def _reserve(self) -> None:
        """Keep the files of an earlier run with the same identity, and reserve space for the others."""
        views, note = self.folder / FOLDER, self.folder / FOLDER / "identity"
        if not (note.exists() and note.read_text(encoding="utf-8") == self.key):
            shutil.rmtree(views, ignore_errors=True)
            remove_array(self.folder / FEATURES)
            views.mkdir(parents=True)
        for kind, path in view_paths(self.folder).items():
            partial, marks = self._unfinished(kind)
            if path.exists() or partial.exists():
                continue
            save_array(marks, np.zeros(self.views[kind] * self.layouts[kind].batches, dtype=np.uint8))
            images = self.layouts[kind].length
            shape = (images, self.width) if kind == "plain" else (self.views[kind], images, self.width)
            try:
                reserve_array(path, self.dtypes[kind], shape, first=partial)
            except OSError as error:
                size = np.dtype(self.dtypes[kind]).itemsize * np.prod(shape, dtype=np.int64) / 1e9
                raise UserError(
                    f"not enough disk space in {path.parent} for {size:.2f} GB of features ({error.strerror})"
                ) from error
        if self.rows is not None:
            save_array(views / ROWS, self.rows)
        write_text(note, self.key)

    def _fill(self, kind: Kind, make_rows: MakeRows) -> None:
        """Compute this process's missing batches."""
        layout = self.layouts[kind]
        partial, done_marks = self._unfinished(kind)
        table, flush = map_array(view_paths(self.folder)[kind], "r+", first=partial)
        marks = np.lib.format.open_memmap(done_marks, mode="r+")
        by_view = table.reshape(-1, layout.length, self.width)  # (V, N, D)
        written: list[int] = []
        saved_at = time.monotonic()

        def save() -> None:
            # Batches are flushed before their marks, so that every marked batch survives a power failure.
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
        # Each kind is a separate task, because speeds differ: features take minutes, views made from them seconds.
        if self.run.processes.first:
            task = "computing features" if kind == "plain" else f"{kind} views"
            self.run.progress(task, done, self.layouts[kind].length * self.views[kind])

    def _unfinished(self, kind: Kind) -> tuple[Path, Path]:
        """The unfinished file of a kind, and the marks of its finished batches."""
        return self.folder / FOLDER / f"{kind}.partial", self.folder / FOLDER / f"{kind}.marks"


def view_paths(folder: Path) -> dict[Kind, Path]:
    """The file of each kind."""
    weak, strong = folder / FOLDER / "weak.npy", folder / FOLDER / "strong.npy"
    return {"plain": folder / FEATURES, "weak": weak, "strong": strong}


def folder_of(run: Run) -> Path:
    """The folder of a run, which must have one."""
    if run.folder is None:
        raise ValueError("views are written to files: give the run a folder")
    return run.folder


def _sampled_rows(images: int, settings: ViewSettings, run: Run) -> NDArray[np.int64] | None:
    """The sorted rows of the images that get views; None: all."""
    if settings.sample is None or settings.sample >= images:
        return None
    sample = torch.randperm(images, generator=run.generator("views", "sample"))[: settings.sample]
    rows: NDArray[np.int64] = sample.sort().values.numpy()
    return rows
