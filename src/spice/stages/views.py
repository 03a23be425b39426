"""The frozen feature model's features of plain, weak and strong views: computed once, read by every head (paper III-B).

The paper's three branches share one feature model that no longer changes, so it runs once per view of each image, and
not again while the heads train. `with_fresh_views` encodes new views in every step instead, as the paper does.

Shapes: N images, V views, B images in a batch, D feature width.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spice.augment import Plain, Recipe, Strong, Weak
from spice.data.images import Images, InColor
from spice.engine.device import to_device
from spice.engine.parallel import parallel_map
from spice.engine.run import Run
from spice.errors import UserError
from spice.files import written_atomically
from spice.models.encoders import Encoder
from spice.settings import ViewSettings

Kind = Literal["plain", "weak", "strong"]
FEATURES, FOLDER = "features.npy", "views"

# Images encoded at once. Results depend on it: the random views of an image depend on its place in its batch.
BATCH = 64
SAVE_EVERY_SECONDS = 5.0

MakeRows = Callable[[Kind, Tensor, torch.Generator], Tensor]


@dataclass(frozen=True, eq=False)
class Views:
    """Features of every image and of its views, usually memory-mapped."""

    plain: NDArray[np.floating]  # (N, D)
    weak: NDArray[np.floating]  # (V, N, D)
    strong: NDArray[np.floating]  # (V, N, D)
    bank: NDArray[np.floating] | None = None  # (N, D) by which images are compared; None: the plain features
    fresh: MakeRows | None = None  # encodes new weak and strong views; None: there are only those above

    def __len__(self) -> int:
        return len(self.plain)

    def all(self, kind: Kind) -> NDArray[np.floating]:
        """All views of a kind, (V, N, D); there is one plain view."""
        return {"plain": self.plain[None], "weak": self.weak, "strong": self.strong}[kind]

    def take(self, kind: Kind, view: int, positions: Tensor | slice) -> Tensor:
        """Features (B, D) of one view, in float32."""
        return _rows(self.all(kind)[view], positions)

    def draw(self, kind: Kind, positions: Tensor, generator: torch.Generator) -> Tensor:
        """Features (B, D) of a random view: a new one, or one of those encoded once."""
        if self.fresh is not None and kind != "plain":
            return self.fresh(kind, positions, generator)
        return self.take(kind, int(torch.randint(len(self.all(kind)), (), generator=generator)), positions)

    def compared(self, positions: Tensor | slice) -> Tensor:
        """Features (B, D) by which images are compared, in float32."""
        return _rows(self.plain if self.bank is None else self.bank, positions)


def encode_views(
    images: Images,
    encoder: Encoder,
    settings: ViewSettings,
    run: Run,
    *,
    identity: str = "",
    starts: NDArray[np.int64] | None = None,
) -> Views:
    """Encode plain images, and V weak and V strong views of images or features, into `run.folder`; resumes if killed.

    Writes features.npy (N, D), views/weak.npy and views/strong.npy (V, N, D).

    Args:
        identity: of the images and of the encoder's weights. Files with another identity are computed again.
        starts: (U,) positions at which another content starts; the images up to the next one are exact copies, which
            are encoded once. None: all images differ.
    """
    recipes, pixels = _recipes(encoder, settings), InColor(images, encoder.channels)
    in_features = settings.space == "features" and not settings.fresh  # fresh views are views of images
    perturbed = _Perturbed(lambda: np.load(_paths(_folder(run))["plain"], mmap_mode="r"), settings, run)

    def encode(kind: Kind, positions: Tensor, generator: torch.Generator) -> Tensor:
        if in_features and kind != "plain":  # plain images were all encoded before
            return perturbed(kind, positions, generator)
        return encoder.encode(recipes[kind](to_device(pixels.take(positions), run.device), generator))

    about = f"{identity} {encoder.name} {encoder.size}"
    return _Files(settings, (len(images), encoder.features), run, about=about, starts=starts).fill(encode)


def with_fresh_views(views: Views, images: Images, encoder: Encoder, settings: ViewSettings) -> Views:
    """The same views, and new ones for every step of the heads' training.

    A step's view of an image does not depend on the other images of the step, nor on the number of processes.
    """
    recipes, pixels = _recipes(encoder, settings), InColor(images, encoder.channels)

    def fresh(kind: Kind, positions: Tensor, generator: torch.Generator) -> Tensor:
        # Sub-batches of several heads share images.
        distinct, places = positions.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        start = generator.get_state()

        def encode(rows: Tensor) -> Tensor:
            again = torch.Generator()
            again.set_state(start)
            return encoder.encode(recipes[kind](pixels.take(rows), again, rows=rows, of=len(views))).cpu()

        return torch.cat(list(parallel_map(encode, distinct.split(BATCH))))[places]

    return replace(views, fresh=fresh)


def perturb_features(features: NDArray[np.floating], settings: ViewSettings, run: Run, *, identity: str = "") -> Views:
    """Views of features (N, D) without images, made with noise in units of the data's own spread.

    A weak view adds a little noise; a strong one adds more and replaces some features by their mean. Such views are
    weaker than those of images.
    """
    perturbed = _Perturbed(lambda: features, settings, run)
    return _Files(settings, features.shape, run, about=f"{identity} given features").fill(perturbed)


def open_views(folder: Path) -> Views:
    """The views that `encode_views` or `perturb_features` wrote to `folder`."""
    return Views(*(np.load(path, mmap_mode="r") for path in _paths(folder).values()))


class _Perturbed:
    """Views of features, by noise in units of their spread, and by replacing some of them by their mean."""

    def __init__(self, features: Callable[[], NDArray[np.floating]], settings: ViewSettings, run: Run) -> None:
        self._open, self.settings, self.run = features, settings, run
        self._lock = Lock()

    def __call__(self, kind: Kind, positions: Tensor, generator: torch.Generator) -> Tensor:
        with self._lock:  # opened once, by whichever thread comes first
            features, spread, mean = self._statistics
        plain = _rows(features, positions)
        if kind == "plain":
            return plain
        noise = self.settings.weak_noise if kind == "weak" else self.settings.strong_noise
        noisy = plain + noise * spread * torch.randn(plain.shape, generator=generator)
        if kind == "weak":
            return noisy
        dropped = torch.rand(plain.shape, generator=generator) < self.settings.strong_dropout
        return torch.where(dropped, mean, noisy)

    @cached_property
    def _statistics(self) -> tuple[NDArray[np.floating], Tensor, Tensor]:
        """The features (N, D), their deviation and their mean (D,)."""
        features = self._open()
        drawn = torch.randperm(len(features), generator=self.run.generator("views", "spread"))[:20_000].sort().values
        some = _rows(features, drawn)
        return features, some.std(dim=0, correction=0), some.mean(dim=0)


class _Files:
    """The three files while they are filled batch by batch; a batch is marked only after it has been written."""

    def __init__(
        self,
        settings: ViewSettings,
        shape: tuple[int, int],
        run: Run,
        *,
        about: str,
        starts: NDArray[np.int64] | None = None,
    ) -> None:
        self.run, self.folder = run, _folder(run)
        self.images, self.width = shape
        self.starts = torch.from_numpy(np.arange(self.images) if starts is None else starts)  # (U,)
        self.ends = torch.cat([self.starts[1:], torch.tensor([self.images])])
        self.batches = -(-len(self.starts) // BATCH)  # per view
        self.views: dict[Kind, int] = {"plain": 1, "weak": settings.weak, "strong": settings.strong}
        # The plain features are also read elsewhere: they stay in full precision.
        self.dtypes: dict[Kind, str] = {"plain": "float32", "weak": settings.precision, "strong": settings.precision}
        key = json.dumps([about, settings.model_dump(), run.seed, shape, BATCH])
        self.key = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()

    def fill(self, make_rows: MakeRows) -> Views:
        processes = self.run.processes
        if processes.first:
            self._reserve()
        processes.barrier()
        done = 0
        for kind, path in _paths(self.folder).items():
            if not path.exists():
                self._fill(kind, make_rows, done=done)
                processes.barrier()
                if processes.first:
                    partial, marks = self._unfinished(kind)
                    partial.replace(path)
                    marks.unlink()
                processes.barrier()
            done += self.images * self.views[kind]
            self._report(done)
        return open_views(self.folder)

    def _reserve(self) -> None:
        """Keep the files of an earlier run if they have the same identity; reserve space for the others."""
        views, note = self.folder / FOLDER, self.folder / FOLDER / "identity"
        if not (note.exists() and note.read_text() == self.key):
            shutil.rmtree(views, ignore_errors=True)
            (self.folder / FEATURES).unlink(missing_ok=True)
            views.mkdir(parents=True)
        for kind, path in _paths(self.folder).items():
            partial, marks = self._unfinished(kind)
            if path.exists() or partial.exists():
                continue
            with written_atomically(marks) as temporary, temporary.open("wb") as file:
                np.save(file, np.zeros(self.views[kind] * self.batches, dtype=np.uint8))
            with written_atomically(partial) as temporary:
                shape = (self.images, self.width) if kind == "plain" else (self.views[kind], self.images, self.width)
                np.lib.format.open_memmap(temporary, mode="w+", dtype=self.dtypes[kind], shape=shape).flush()
                _claim_space(temporary)
        with written_atomically(note) as temporary:
            temporary.write_text(self.key)

    def _fill(self, kind: Kind, make_rows: MakeRows, *, done: int) -> None:
        """Compute this process's missing batches, of which there are `batches` per view."""
        table, marks = (np.lib.format.open_memmap(path, mode="r+") for path in self._unfinished(kind))
        by_view = table.reshape(-1, self.images, self.width)  # (V, N, D)
        written: list[int] = []
        saved_at = time.monotonic()

        def save() -> None:
            # Batches reach the disk before their marks, so that after a power cut no mark is without its batch.
            table.flush()
            marks[written] = 1
            marks.flush()
            written.clear()

        def compute(number: int) -> Tensor:
            view, batch = divmod(number, self.batches)
            positions = self.starts[batch * BATCH : (batch + 1) * BATCH]
            return make_rows(kind, positions, self.run.generator("views", kind, view, batch)).cpu()

        own = range(self.run.processes.rank, len(marks), self.run.processes.count)
        missing = [number for number in own if not marks[number]]
        for number, rows in zip(missing, parallel_map(compute, missing), strict=True):
            view, batch = divmod(number, self.batches)
            copies = self.ends[batch * BATCH :][: len(rows)] - self.starts[batch * BATCH :][: len(rows)]
            start, end = int(self.starts[batch * BATCH]), int(self.ends[batch * BATCH + len(rows) - 1])
            by_view[view, start:end] = rows.repeat_interleave(copies, dim=0).numpy()
            written.append(number)
            if time.monotonic() - saved_at > SAVE_EVERY_SECONDS:
                save()
                saved_at = time.monotonic()
            self._report(done + view * self.images + end)
        save()

    def _report(self, done: int) -> None:
        if self.run.processes.first:
            self.run.progress("views", done, self.images * sum(self.views.values()))

    def _unfinished(self, kind: Kind) -> tuple[Path, Path]:
        """The file of a kind before it is complete, and the marks of its finished batches."""
        return self.folder / FOLDER / f"{kind}.partial", self.folder / FOLDER / f"{kind}.marks"


def _folder(run: Run) -> Path:
    if run.folder is None:
        raise ValueError("views are written to files: give the run a folder")
    return run.folder


def _recipes(encoder: Encoder, settings: ViewSettings) -> dict[Kind, Recipe]:
    options = settings.augment, encoder.size, encoder.normalization
    return {"plain": Plain(*options), "weak": Weak(*options), "strong": Strong(*options)}


def _rows(table: NDArray[np.floating], positions: Tensor | slice) -> Tensor:
    if isinstance(positions, slice):
        return torch.from_numpy(np.array(table[positions], dtype=np.float32))
    return torch.from_numpy(table.take(positions.numpy(), axis=0).astype(np.float32, copy=False))


def _paths(folder: Path) -> dict[Kind, Path]:
    weak, strong = folder / FOLDER / "weak.npy", folder / FOLDER / "strong.npy"
    return {"plain": folder / FEATURES, "weak": weak, "strong": strong}


def _claim_space(path: Path) -> None:
    """Report a full disk now: later, writing to a mapped file would kill the program without a message."""
    size = path.stat().st_size
    if not hasattr(os, "posix_fallocate"):
        return
    with path.open("r+b") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            raise UserError(
                f"not enough disk space in {path.parent} for {size / 1e9:.2f} GB of features ({error.strerror})"
            ) from error
