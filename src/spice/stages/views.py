"""Features of plain, weak and strong views of all images: computed once, read by every head (paper III-B).

The paper's three branches share one frozen feature model, so each view of an image needs to be encoded only once, not
again while the heads train. `with_fresh_views` encodes new views in every step instead, as the paper does.

Shapes: N images, V views, B images in a batch, D feature width.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spice.arrays import open_array
from spice.augment import Plain, Recipe, Strong, Weak
from spice.data.images import Images, InColor
from spice.engine.device import to_device
from spice.engine.parallel import parallel_map
from spice.engine.run import Run
from spice.models.encoders import Encoder
from spice.settings import ViewSettings
from spice.stages.encode import device_of, encode_batch
from spice.stages.view_files import BATCH, FOLDER, ROWS, Kind, MakeRows, ViewFiles, folder_of, view_paths


@dataclass(frozen=True, eq=False)
class Views:
    """Features of every image and of its views, usually memory-mapped."""

    plain: NDArray[np.floating]  # (N, D)
    weak: NDArray[np.floating]  # (V, N, D)
    strong: NDArray[np.floating]  # (V, N, D)
    bank: NDArray[np.floating] | None = None  # (N, D) features for comparing images; None: the plain ones
    fresh: MakeRows | None = None  # encodes new weak and strong views; None: only the views above are used
    rows: NDArray[np.int64] | None = None  # (N,) rows of these images in the collection; None: all its images

    def __len__(self) -> int:
        return len(self.plain)

    def all(self, kind: Kind) -> NDArray[np.floating]:
        """All views of a kind, (V, N, D); there is one plain view."""
        return {"plain": self.plain[None], "weak": self.weak, "strong": self.strong}[kind]

    def take(self, kind: Kind, view: int, positions: Tensor | slice) -> Tensor:
        """Features (B, D) of one view, in float32."""
        return _rows(self.all(kind)[view], positions)

    def draw(self, kind: Kind, positions: Tensor, generator: torch.Generator) -> Tensor:
        """Features (B, D) of a random view: a new one, or one of the cached ones."""
        if self.fresh is not None and kind != "plain":
            return self.fresh(kind, positions, generator)
        return self.take(kind, int(torch.randint(len(self.all(kind)), (), generator=generator)), positions)

    def take_bank(self, positions: Tensor | slice) -> Tensor:
        """Features (B, D) for comparing images, in float32."""
        return _rows(self.plain if self.bank is None else self.bank, positions)


def encode_views(
    images: Images,
    encoder: Encoder,
    settings: ViewSettings,
    run: Run,
    *,
    distinct: NDArray[np.int64] | None = None,
    known: Callable[[Tensor], Tensor] | None = None,
) -> Views:
    """Encode plain images and V weak and V strong views, of images or features, into `run.folder`. Can be resumed.

    Writes features.npy (N, D), views/weak.npy and views/strong.npy (V, N, D). With `settings.sample`, only a sample of
    the images has views, and views/rows.npy lists these images.

    Args:
        distinct: (U,) positions of the distinct images. Each is followed by its exact copies, which get its features.
            None: all images differ.
        known: returns the features (B, D) of the plain images at positions (B,), if they are already known.
    """
    recipes, pixels = _recipes(encoder, settings), InColor(images, encoder.channels)
    in_features = settings.space == "features" and not settings.fresh  # fresh views are views of images
    perturbed = _Perturbed(lambda: open_array(view_paths(folder_of(run))["plain"]), settings, run)

    def encode(kind: Kind, positions: Tensor, generator: torch.Generator) -> Tensor:
        if kind == "plain":
            return encode_batch(encoder, recipes[kind], pixels, positions) if known is None else known(positions)
        if in_features:  # all plain images have been encoded by now
            return perturbed(kind, positions, generator)
        return encoder.encode(recipes[kind](to_device(pixels.take(positions), run.device), generator))

    about = f"{encoder.name} {encoder.size}"
    ViewFiles(settings, (len(images), encoder.features), run, about=about, distinct=distinct).fill(encode)
    return open_views(folder_of(run))


def with_fresh_views(views: Views, images: Images, encoder: Encoder, settings: ViewSettings) -> Views:
    """The same views, with new ones for every step of the heads' training.

    In a step, the view of an image depends neither on the other images nor on the number of processes.
    """
    recipes, pixels = _recipes(encoder, settings), InColor(images, encoder.channels)
    device = device_of(encoder)

    def fresh(kind: Kind, positions: Tensor, generator: torch.Generator) -> Tensor:
        # The sub-batches of several heads share images.
        distinct, places = positions.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        start = generator.get_state()

        def encode(rows: Tensor) -> Tensor:
            again = torch.Generator()
            again.set_state(start)
            return encoder.encode(
                recipes[kind](to_device(pixels.take(rows), device), again, rows=rows, of=len(views))
            ).cpu()

        return torch.cat(list(parallel_map(encode, distinct.split(BATCH))))[places]

    return replace(views, fresh=fresh)


def perturb_features(features: NDArray[np.floating], settings: ViewSettings, run: Run) -> Views:
    """Views of features (N, D) without images: features with noise, in units of their standard deviation.

    A weak view adds a little noise. A strong view adds more noise and replaces some features by their mean. Such views
    teach less than views of images.
    """
    perturbed = _Perturbed(lambda: features, settings, run)
    ViewFiles(settings, features.shape, run, about="given features").fill(perturbed)
    return open_views(folder_of(run))


def open_views(folder: Path) -> Views:
    """The views that `encode_views` or `perturb_features` wrote to `folder`, for the images that have views."""
    plain, weak, strong = (open_array(path) for path in view_paths(folder).values())
    sample = folder / FOLDER / ROWS
    if not sample.exists():
        return Views(plain, weak, strong)
    rows = np.load(sample)
    return Views(plain[rows], weak, strong, rows=rows)


class _Perturbed:
    """Views of features: with noise, in units of their standard deviation, and with some features set to their mean."""

    def __init__(self, features: Callable[[], NDArray[np.floating]], settings: ViewSettings, run: Run) -> None:
        self._open, self.settings, self.run = features, settings, run
        self._lock = Lock()

    def __call__(self, kind: Kind, positions: Tensor, generator: torch.Generator) -> Tensor:
        with self._lock:  # computed once, by the first thread
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
        """The features (N, D), their standard deviation (D,) and their mean (D,)."""
        features = self._open()
        drawn = torch.randperm(len(features), generator=self.run.generator("views", "spread"))[:20_000].sort().values
        sample = _rows(features, drawn)
        return features, sample.std(dim=0, correction=0), sample.mean(dim=0)


def _recipes(encoder: Encoder, settings: ViewSettings) -> dict[Kind, Recipe]:
    options = settings.augment, encoder.size, encoder.normalization
    return {"plain": Plain(*options), "weak": Weak(*options), "strong": Strong(*options)}


def _rows(table: NDArray[np.floating], positions: Tensor | slice) -> Tensor:
    if isinstance(positions, slice):
        return torch.from_numpy(np.array(table[positions], dtype=np.float32))
    return torch.from_numpy(table.take(positions.numpy(), axis=0).astype(np.float32, copy=False))
