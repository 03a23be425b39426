"""`SPICE(n_clusters=10).fit(...)`: a thin layer on the pipeline that follows scikit-learn's conventions."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from spice.data import Collection, Problem, SourceLike, ingest
from spice.data.adapters import Given, adapted, is_table_of_numbers
from spice.data.vectors import Vectors
from spice.models.given_features import NoEncoder, checked_vectors
from spice.pipeline import cluster
from spice.presets import preset
from spice.progress import Logged, Progress, silent
from spice.runs import open_result
from spice.runs.artifacts import IMAGES, MODEL, PROBABILITIES
from spice.runs.table import Column
from spice.stages.model import Predictions, TrainedModel

Value = TypeVar("Value", bound=np.generic)
Floats = NDArray[np.float32]


class SPICE(ClusterMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Groups images by meaning, without labels, and says which of its answers can be trusted.

    Images are given as a folder, a glob, a list file, an archive, an array (N, H, W[, C]), or a list of paths or of PIL
    images. For arrays and lists, results are in the order given, and an image that could not be read has the label -1;
    for all else they are those of `paths_`, the images that could be read. An array (N, D) is taken for features.

    Args:
        n_clusters: how many groups to make; None: the paper's number, with a preset such as "paper:cifar10".
        encoder: "lite0", "scratch" (trained on the images), "hf:facebook/dinov2-small", ...; None: the preset's choice,
            "lite0" for most.
        size: pixels on a side shown to the encoder; None: its own choice.
        preset: "quick", "standard", or the paper's settings for a data set, such as "paper:cifar10".
        refine: whether to train encoder and head together afterwards (the paper's third stage), which takes long.
        minutes: how long that may train; None: a fixed number of steps.
        flip: whether views may be mirrored; set it to False for text and digits.
        device: where to fit and predict: "auto", "cpu", "cuda", "cuda:1", "mps".
        random_state: the same state gives the same groups.
        run_folder: where the run is kept, so that a stopped fit can be resumed; None: nowhere.
        verbose: whether to log progress.

    Attributes:
        labels_: (N,) the cluster of each image.
        probabilities_: (N, K) the softmax of every cluster; overconfident, use `chance_` to judge a label.
        chance_: (N,) the chance that the label is right.
        reliability_: (N,) the share of the nearest images that lie in the same cluster.
        reliable_: (N,) whether that share is above the threshold.
        paths_: the names of the images.
        model_: what predicts.
    """

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        encoder: str | None = None,
        size: int | None = None,
        preset: str = "standard",
        refine: bool = False,
        minutes: float | None = None,
        flip: bool = True,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = 0,
        run_folder: str | os.PathLike[str] | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.encoder = encoder
        self.size = size
        self.preset = preset
        self.refine = refine
        self.minutes = minutes
        self.flip = flip
        self.device = device
        self.random_state = random_state
        self.run_folder = run_folder
        self.verbose = verbose

    def fit(self, X: SourceLike, y: object = None) -> Self:  # noqa: N803, ARG002 - scikit-learn's signature
        """Group the images `X`; `y` is ignored, and there for scikit-learn's API."""
        settings = preset(
            self.preset,
            clusters=self.n_clusters,
            encoder=self.encoder,
            size=self.size,
            flip=self.flip,
            refine=self.refine,
            minutes=self.minutes,
            seed=_seed(self.random_state),
        )
        source = self._given(X, reset=True)
        with _folder(self.run_folder) as out:
            # A folder that is gone in a moment needs no page.
            page, progress = self.run_folder is not None, self._progress()
            cluster(source, settings, out, page=page, redo=True, download=True, device=self.device, progress=progress)
            result = open_result(out)
            collection = Collection.load((result / IMAGES).parent)
            places = _places(source, collection)
            self.labels_ = places.fill(result.labels.cluster, np.int32(-1))
            self.probabilities_ = places.fill(np.load(result / PROBABILITIES), np.float32(np.nan))
            self.chance_ = places.fill(result.labels.chance, np.float32(np.nan))
            self.reliability_ = places.fill(result.labels.reliability, np.float32(np.nan))
            self.reliable_ = places.fill(result.labels.reliable, np.bool_(False))
            self.paths_ = places.names
            self.model_ = TrainedModel.load(result / MODEL, device=self.device)
        return self

    def predict(self, X: SourceLike) -> NDArray[np.int32]:  # noqa: N803
        """The clusters of other images, under the same numbers; -1 for one that cannot be read."""
        found, places, _ = self._predict(X)
        return places.fill(found.cluster, np.int32(-1))

    def predict_proba(self, X: SourceLike) -> Floats:  # noqa: N803
        """The probability of every cluster for other images (Q, K)."""
        found, places, _ = self._predict(X)
        return places.fill(found.probabilities, np.float32(np.nan))

    def assess(self, X: SourceLike, *, progress: Progress | None = None) -> "Assessment":  # noqa: N803
        """The whole answer for other images: those that can be read, with their names, and the problems."""
        found, places, problems = self._predict(X, progress)
        rows = places.rows[places.rows >= 0]
        names = [name for name, row in zip(places.names, places.rows, strict=True) if row >= 0]
        return Assessment(names, found.rows(rows), problems)

    def save(self, folder: str | os.PathLike[str], *, embed: bool = False) -> None:
        """Write what predicts to `folder`; with `embed`, the encoder's weights too."""
        check_is_fitted(self, "model_")
        self.model_.save(Path(folder), embed=embed)

    def _predict(
        self, images: SourceLike, progress: Progress | None = None
    ) -> "tuple[Predictions, _Places, tuple[Problem, ...]]":
        check_is_fitted(self, "model_")
        model: TrainedModel = self.model_
        given = self._given(images, reset=False)
        if isinstance(given, Vectors):
            features = checked_vectors(given.values, given.label)
            names = given.names or [str(row) for row in range(len(features))]
            return model.predict_features(features), _Places(np.arange(len(features)), names), ()
        if isinstance(model.encoder, NoEncoder):
            model.encoder.refuse()
        progress = progress or self._progress()
        with TemporaryDirectory(prefix="spice-") as folder:
            store = ingest(given, size=model.encoder.size, folder=Path(folder), progress=progress)
            found = model.predict(store, starts=store.collection.starts, progress=progress)
        return found, _places(given, store.collection), store.collection.problems

    def _given(self, images: SourceLike, *, reset: bool) -> Given:
        """The images as a source; vectors are checked as scikit-learn checks them."""
        if is_table_of_numbers(images):
            return Vectors(
                validate_data(self, images, dtype=np.float32, ensure_min_samples=2 if reset else 1, reset=reset)
            )
        given = adapted(images)
        if isinstance(given, Vectors):
            validate_data(self, given.values, dtype=np.float32, reset=reset)
        return given

    def _progress(self) -> Progress:
        return Logged() if self.verbose else silent


class Assessment(NamedTuple):
    """Names of images, the predictions for them, and the files that could not be read."""

    paths: list[str]
    predictions: Predictions
    problems: tuple[Problem, ...]

    def columns(self) -> dict[str, Column]:
        """As a table: a line per image, without the probabilities of all clusters."""
        found = self.predictions._asdict()
        del found["probabilities"]
        return {"path": self.paths, **found}


def load(folder: str | os.PathLike[str], *, device: str = "auto") -> SPICE:
    """A model that `SPICE.save` or a run has written (its `model/`), ready to predict on `device`."""
    model = TrainedModel.load(Path(folder), device=device)
    loaded = SPICE(model.head.clusters, encoder=model.encoder.name, size=model.encoder.size, device=device)
    loaded.model_ = model
    loaded.n_features_in_ = model.encoder.features
    return loaded


class _Places(NamedTuple):
    """Where each answer belongs: results come in order of content, the user's order is another."""

    rows: NDArray[np.int64]  # (N,) for every image of the user its row in the collection; -1: it could not be read
    names: list[str]

    def fill(self, values: NDArray[Value], missing: Value) -> NDArray[Value]:
        found = values[self.rows]
        found[self.rows < 0] = missing
        return found


def _places(given: Given, collection: Collection) -> _Places:
    numbers = collection.numbers
    if isinstance(given, str):
        order = numbers.argsort(kind="stable")
        return _Places(order, [collection.paths[row] for row in order])
    rows = np.full(len(given) if isinstance(given, Vectors) else given.count, -1, dtype=np.int64)
    rows[numbers] = np.arange(len(collection))
    return _Places(rows, [collection.paths[row] if row >= 0 else "" for row in rows])


def _seed(state: int | np.random.RandomState | None) -> int:
    return int(state) if isinstance(state, int | np.integer) else int(check_random_state(state).randint(2**31 - 1))


@contextmanager
def _folder(chosen: str | os.PathLike[str] | None) -> Iterator[Path]:
    if chosen is not None:
        yield Path(chosen)
        return
    with TemporaryDirectory(prefix="spice-") as folder:
        yield Path(folder)
