"""The frozen feature model's features of plain, weak and strong views: computed once, read by every head (paper III-B).

The three branches of the paper share one feature model that no longer changes, so it is run 1 + V + V times per image,
and never again while the heads train.

Shapes: N images, V views, B images in a batch, D feature width.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spice.augment import Plain, Strong, Weak
from spice.engine.abreast import abreast
from spice.engine.processes import ALONE, Processes
from spice.errors import UserError
from spice.files import written_atomically
from spice.models.encoders import Encoder
from spice.progress import Progress, silent
from spice.randomness import generator
from spice.settings import ViewSettings

Kind = Literal["plain", "weak", "strong"]
Space = Literal["images", "features"]
FEATURES, FOLDER = "features.npy", "views"

# Images encoded at once. Part of the result: the random views of an image depend on its place in its batch.
BATCH = 64
SAVE_EVERY_SECONDS = 5.0


class Images(Protocol):
    """What is needed of an image store."""

    channels: int

    def __len__(self) -> int: ...
    def take(self, positions: Tensor) -> Tensor:
        """uint8 (B, C, S, S)."""


@dataclass(frozen=True, eq=False)
class Views:
    """Features of every image and of its views, memory-mapped or not."""

    plain: NDArray[np.floating]  # (N, D)
    weak: NDArray[np.floating]  # (V, N, D)
    strong: NDArray[np.floating]  # (V, N, D)
    space: Space = "images"  # where views were made: from images, or, where there were only features, from those
    bank: NDArray[np.floating] | None = None  # (N, D) by which images are compared; None: the plain features

    def __len__(self) -> int:
        return len(self.plain)

    def count(self, kind: Kind) -> int:
        """How many views of this kind each image has."""
        return 1 if kind == "plain" else len(self.weak if kind == "weak" else self.strong)

    def take(self, kind: Kind, view: int, positions: Tensor | slice) -> Tensor:
        """Features (B, D) of one view, in float32."""
        return _rows(self.plain if kind == "plain" else (self.weak if kind == "weak" else self.strong)[view], positions)

    def compared(self, positions: Tensor | slice) -> Tensor:
        """Features (B, D) by which images are compared, in float32."""
        return _rows(self.plain if self.bank is None else self.bank, positions)


def encode_views(
    images: Images,
    encoder: Encoder,
    settings: ViewSettings,
    *,
    seed: int,
    folder: Path,
    identity: str = "",
    processes: Processes = ALONE,
    progress: Progress = silent,
) -> Views:
    """Encode plain images, V weak and V strong views into `folder`; what a killed run has encoded is kept.

    Args:
        folder: gets features.npy (N, D), views/weak.npy and views/strong.npy (V, N, D).
        identity: of the images and of an encoder's weights: files made under another one are made anew.
    """
    recipes = {
        "plain": Plain(settings.augment, encoder.size, encoder.normalization),
        "weak": Weak(settings.augment, encoder.size, encoder.normalization),
        "strong": Strong(settings.augment, encoder.size, encoder.normalization),
    }

    def rows(kind: Kind, positions: Tensor, randomness: torch.Generator) -> Tensor:
        batch = images.take(positions).expand(-1, encoder.channels, -1, -1)  # a gray image's channel serves as three
        return encoder.encode(recipes[kind](batch, randomness))

    files = _Files(
        folder,
        settings,
        (len(images), encoder.features),
        about=f"{identity} {encoder.name} {encoder.size}",
        seed=seed,
        processes=processes,
    )
    return files.filled(rows, space="images", progress=progress)


def perturb_features(
    features: NDArray[np.floating],
    settings: ViewSettings,
    *,
    seed: int,
    folder: Path,
    identity: str = "",
    progress: Progress = silent,
) -> Views:
    """Views where there are features (N, D) and no images: noise as wide as a share of the data's own spread.

    A weak view adds a little noise; a strong one adds more and drops some features, which take their mean instead.
    This stands in for what an image's views would be, and is weaker than those: `Views.space` says so.
    """
    drawn = torch.randperm(len(features), generator=generator(seed, "views", "spread"))[:20_000].sort().values
    some = torch.from_numpy(np.array(features[drawn.numpy()], dtype=np.float32))
    spread, mean = some.std(dim=0, correction=0), some.mean(dim=0)  # (D,)

    def rows(kind: Kind, positions: Tensor, randomness: torch.Generator) -> Tensor:
        plain = torch.from_numpy(np.array(features[positions.numpy()], dtype=np.float32))
        if kind == "plain":
            return plain
        noise = settings.weak_noise if kind == "weak" else settings.strong_noise
        view_of = plain + noise * spread * torch.randn(plain.shape, generator=randomness)
        if kind == "weak":
            return view_of
        dropped = torch.rand(plain.shape, generator=randomness) < settings.strong_dropout
        return torch.where(dropped, mean, view_of)

    about = f"{identity} given features"
    files = _Files(folder, settings, features.shape, about=about, seed=seed, processes=ALONE)
    return files.filled(rows, space="features", progress=progress)


def open_views(folder: Path, *, space: Space = "images") -> Views:
    """What `encode_views` or `perturb_features` left in `folder`."""
    plain, weak, strong = (np.load(path, mmap_mode="r") for path in _paths(folder).values())
    return Views(plain, weak, strong, space)


MakeRows = Callable[[Kind, Tensor, torch.Generator], Tensor]


class _Files:
    """The three files while they grow, batch by batch; each batch is marked only after it has been written."""

    def __init__(
        self,
        folder: Path,
        settings: ViewSettings,
        shape: tuple[int, int],
        *,
        about: str,
        seed: int,
        processes: Processes,
    ) -> None:
        self.folder, self.seed, self.processes = folder, seed, processes
        self.images, self.width = shape
        self.views: dict[Kind, int] = {"plain": 1, "weak": settings.weak, "strong": settings.strong}
        # The plain features are what people read elsewhere: they stay in full precision.
        self.dtypes: dict[Kind, str] = {"plain": "float32", "weak": settings.precision, "strong": settings.precision}
        key = json.dumps([about, settings.model_dump(), seed, shape, BATCH])
        self.key = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()

    def filled(self, rows: MakeRows, *, space: Space, progress: Progress) -> Views:
        if self.processes.first:
            self._start()
        self.processes.barrier()
        per_view = -(-self.images // BATCH)
        total = self.images * sum(self.views.values())
        before = 0
        for kind, path in _paths(self.folder).items():
            if not path.exists():
                self._fill(kind, rows, before=before, total=total, progress=progress)
                self.processes.barrier()
                if self.processes.first:
                    self._finish(kind, path, batches=self.views[kind] * per_view)
                self.processes.barrier()
            before += self.images * self.views[kind]
            progress("views", before, total)
        return open_views(self.folder, space=space)

    def _start(self) -> None:
        """Keep what an earlier run has left if it was about the same work; make room for the rest."""
        views, note = self.folder / FOLDER, self.folder / FOLDER / "identity"
        if not (note.exists() and note.read_text() == self.key):
            shutil.rmtree(views, ignore_errors=True)
            (self.folder / FEATURES).unlink(missing_ok=True)
            views.mkdir(parents=True)
        for kind, path in _paths(self.folder).items():
            if not (path.exists() or self._partial(kind).exists()):
                self._reserve(kind)
        with written_atomically(note) as temporary:
            temporary.write_text(self.key)

    def _reserve(self, kind: Kind) -> None:
        marks = self.views[kind] * -(-self.images // BATCH)
        shape: tuple[int, ...] = (self.images, self.width)
        with written_atomically(self._marks(kind)) as temporary, temporary.open("wb") as file:
            np.save(file, np.zeros(marks, dtype=np.uint8))
        with written_atomically(self._partial(kind)) as temporary:
            whole = shape if kind == "plain" else (self.views[kind], *shape)
            np.lib.format.open_memmap(temporary, mode="w+", dtype=self.dtypes[kind], shape=whole).flush()
            _claim_space(temporary)

    def _fill(self, kind: Kind, rows: MakeRows, *, before: int, total: int, progress: Progress) -> None:
        table = np.lib.format.open_memmap(self._partial(kind), mode="r+").reshape(-1, self.images, self.width)
        marks = np.lib.format.open_memmap(self._marks(kind), mode="r+")
        batches = -(-self.images // BATCH)
        written: list[int] = []
        saved_at = time.monotonic()

        def made(number: int) -> Tensor:
            view, batch = divmod(number, batches)
            positions = torch.arange(batch * BATCH, min((batch + 1) * BATCH, self.images))
            return rows(kind, positions, generator(self.seed, "views", kind, view, batch)).cpu()

        own = range(self.processes.rank, len(marks), self.processes.count)
        missing = [number for number in own if not marks[number]]
        for number, found in zip(missing, abreast(made, missing), strict=True):
            view, batch = divmod(number, batches)
            start, end = batch * BATCH, batch * BATCH + len(found)
            table[view, start:end] = found.numpy()
            written.append(number)
            if time.monotonic() - saved_at > SAVE_EVERY_SECONDS:
                _mark_(marks, written, table)
                saved_at = time.monotonic()
            if self.processes.first:
                progress("views", before + view * self.images + end, total)
        _mark_(marks, written, table)

    def _finish(self, kind: Kind, path: Path, *, batches: int) -> None:
        marks = np.load(self._marks(kind))
        assert marks.sum() == batches, f"{kind}: {marks.sum()} of {batches} batches"
        self._partial(kind).replace(path)
        self._marks(kind).unlink()

    def _partial(self, kind: Kind) -> Path:
        return self.folder / FOLDER / f"{kind}.partial"

    def _marks(self, kind: Kind) -> Path:
        return self.folder / FOLDER / f"{kind}.marks"


def _rows(table: NDArray[np.floating], positions: Tensor | slice) -> Tensor:
    if isinstance(positions, slice):
        return torch.from_numpy(np.array(table[positions], dtype=np.float32))
    return torch.from_numpy(table.take(positions.numpy(), axis=0).astype(np.float32, copy=False))


def _paths(folder: Path) -> dict[Kind, Path]:
    views = folder / FOLDER
    return {"plain": folder / FEATURES, "weak": views / "weak.npy", "strong": views / "strong.npy"}


def _mark_(marks: "np.memmap[tuple[int], np.dtype[np.uint8]]", written: list[int], table: NDArray[np.floating]) -> None:
    """Batches reach the disk before their marks do, so that no mark outlives a power cut that its batch did not."""
    base = table.base if isinstance(table.base, np.memmap) else table
    assert isinstance(base, np.memmap)
    base.flush()
    marks[written] = 1
    marks.flush()
    written.clear()


def _claim_space(path: Path) -> None:
    """A full disk is told now: later, writing to a mapped file would end the program without a word."""
    size = path.stat().st_size
    if not hasattr(os, "posix_fallocate"):
        return
    with path.open("r+b") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            need = f"{size / 1e9:.2f} GB"
            raise UserError(
                f"{path.parent} has no room for {need} of features ({error.strerror}): free some"
            ) from error
