"""The frozen feature model's features of plain, weak and strong views: computed once, read by every head (paper III-B).

The paper's three branches share one feature model that no longer changes, so it runs once per view of each image, and
not again while the heads train. `with_fresh_views` encodes new views in every step instead, as the paper does.

Shapes: N images, V views, B images in a batch, D feature width.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

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
from spice.settings import AugmentSettings, ViewSettings
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
    rows: NDArray[np.int64] | None = None  # (N,) their rows in the collection; None: these are all its images

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

    def take_bank(self, positions: Tensor | slice) -> Tensor:
        """Features (B, D) for comparing images, in float32."""
        return _rows(self.plain if self.bank is None else self.bank, positions)


def encode_features(
    images: Images,
    encoder: Encoder,
    path: Path,
    run: Run,
    *,
    distinct: NDArray[np.int64] | None = None,
    known: Callable[[Tensor], Tensor] | None = None,
) -> NDArray[np.floating]:
    """Encode the plain images into the file `path`, (N, D) float32. Can be resumed. Nothing here is random.

    Args:
        run: its folder keeps the file until it is complete.
        distinct: (U,) positions of the distinct images. Each is followed by its exact copies, which get its features.
            None: all images differ.
        known: returns the features (B, D) of the images at positions (B,), if they were computed elsewhere.
    """
    recipe = Plain(AugmentSettings(), size=encoder.size, normalization=encoder.normalization)
    pixels = InColor(images, encoder.channels)

    def encode(_kind: Kind, positions: Tensor, _generator: torch.Generator) -> Tensor:
        return encode_batch(encoder, recipe, pixels, positions) if known is None else known(positions)

    shape, about = (len(images), encoder.features), f"{encoder.name} {encoder.size}"
    ViewFiles({"plain": path}, folder_of(run) / "plain", None, shape, run, about=about, distinct=distinct).fill(encode)
    return open_array(path)


def encode_views(
    images: Images,
    features: NDArray[np.floating],
    encoder: Encoder,
    settings: ViewSettings,
    run: Run,
    *,
    distinct: NDArray[np.int64] | None = None,
) -> Views:
    """Encode V weak and V strong views of every image into `run.folder`. Can be resumed.

    Writes views/weak.npy and views/strong.npy (V, N, D). With `settings.sample`, only a sample of the images has views,
    and views/rows.npy lists these images.

    Args:
        features: (N, D) of the plain images.
        distinct: as for `encode_features`.
    """
    recipes, pixels = _recipes(encoder, settings), InColor(images, encoder.channels)

    def encode(kind: Kind, positions: Tensor, generator: torch.Generator) -> Tensor:
        return encoder.encode(recipes[kind](to_device(pixels.take(positions), run.device), generator))

    return _fill(features, encode, settings, run, about=f"{encoder.name} {encoder.size}", distinct=distinct)


def with_fresh_views(views: Views, images: Images, encoder: Encoder, settings: ViewSettings) -> Views:
    """The same views, with new ones for every step of the heads' training.

    A step's view of an image does not depend on the other images of the step, nor on the number of processes.
    """
    recipes, pixels = _recipes(encoder, settings), InColor(images, encoder.channels)
    device = device_of(encoder)

    def fresh(kind: Kind, positions: Tensor, generator: torch.Generator) -> Tensor:
        # Sub-batches of several heads share images.
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


def perturb_features(
    features: NDArray[np.floating], settings: ViewSettings, run: Run, *, distinct: NDArray[np.int64] | None = None
) -> Views:
    """Views of features (N, D) without images, made with noise in units of their standard deviation.

    A weak view adds a little noise. A strong view adds more noise and replaces some features by their mean. Such views
    teach less than views of images. They are written to `run.folder`, as by `encode_views`.
    """
    drawn = torch.randperm(len(features), generator=run.generator("views", "spread"))[:20_000].sort().values
    some = _rows(features, drawn)
    spread, mean = some.std(dim=0, correction=0), some.mean(dim=0)  # (D,), (D,)

    def perturb(kind: Kind, positions: Tensor, generator: torch.Generator) -> Tensor:
        plain = _rows(features, positions)
        noise = settings.weak_noise if kind == "weak" else settings.strong_noise
        noisy = plain + noise * spread * torch.randn(plain.shape, generator=generator)
        if kind == "weak":
            return noisy
        dropped = torch.rand(plain.shape, generator=generator) < settings.strong_dropout
        return torch.where(dropped, mean, noisy)

    return _fill(features, perturb, settings, run, about="features", distinct=distinct)


def open_views(folder: Path, features: NDArray[np.floating]) -> Views:
    """The views that `encode_views` or `perturb_features` wrote to `folder`, of the images that have views.

    Args:
        features: (N, D) of all plain images.
    """
    weak, strong = (open_array(path) for path in view_paths(folder).values())
    sample = folder / FOLDER / ROWS
    if not sample.exists():
        return Views(features, weak, strong)
    rows = np.load(sample)
    return Views(features[rows], weak, strong, rows=rows)


def _fill(
    features: NDArray[np.floating],
    make_rows: MakeRows,
    settings: ViewSettings,
    run: Run,
    *,
    about: str,
    distinct: NDArray[np.int64] | None,
) -> Views:
    """Write the views to `run.folder`."""
    folder = folder_of(run)
    paths, shape = view_paths(folder), (len(features), features.shape[1])
    ViewFiles(paths, folder / FOLDER, settings, shape, run, about=about, distinct=distinct).fill(make_rows)
    return open_views(folder, features)


def _recipes(encoder: Encoder, settings: ViewSettings) -> dict[Kind, Recipe]:
    options = settings.augment, encoder.size, encoder.normalization
    return {"weak": Weak(*options), "strong": Strong(*options)}


def _rows(table: NDArray[np.floating], positions: Tensor | slice) -> Tensor:
    if isinstance(positions, slice):
        return torch.from_numpy(np.array(table[positions], dtype=np.float32))
    return torch.from_numpy(table.take(positions.numpy(), axis=0).astype(np.float32, copy=False))
