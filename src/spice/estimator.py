"""`SPICE(n_clusters=10).fit(...)`: a thin layer on the pipeline that follows scikit-learn's conventions."""

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.metrics import silhouette_score
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from spice.arrays import open_array
from spice.data import Problem, SourceLike, ingest
from spice.data.adapters import Adapted, adapt, is_table_of_numbers
from spice.data.vectors import Vectors
from spice.errors import UserError, one_line
from spice.group_sizes import as_shares
from spice.models.precomputed import NoEncoder, checked_vectors
from spice.notebook.answers import Answers, answers_of
from spice.notebook.explorer import explore
from spice.notebook.order import UserOrder, filled, source_order, user_order
from spice.notebook.progress import show_progress
from spice.pipeline import cluster
from spice.pipeline.stored_images import collection_of
from spice.progress import Progress
from spice.runs import Result, open_result
from spice.runs.artifacts import MODEL, PROBABILITIES
from spice.runs.folder import is_run
from spice.settings_file import requested_settings
from spice.stages.encode import encode_plain
from spice.stages.model import Predictions, TrainedModel
from spice.tables import Column

Floats = NDArray[np.float32]
_MOST_SCORED = 5_000  # images, because the silhouette compares all pairs


class SPICE(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Sorts images into groups by what they show, without labels, and tells you how far to trust each group.

    Images can be

    - a path: folder, glob, list file or archive. Results are in the order of `paths_`, the images that could be read;
    - Python objects: a list or generator of paths, PIL images, bytes or open files, an array (N, H, W[, C]), a tensor,
      a torch or Hugging Face data set, a loader, a data frame with a column of paths. Results are in the order given,
      and an image that could not be read has the label -1;
    - vectors: an array (N, D), a data frame of numbers or a file of vectors, used as features.

    Args:
        n_clusters: number of groups, or a range such as (5, 40) to search. None: find the number, or use the paper's
            with a preset such as "paper:cifar10". If there are no clear groups, `fit` raises UserError.
        sizes: sizes of the groups if you know them, as shares or counts in any order; replaces `n_clusters`.
        encoder: "lite0", "scratch" (trained on your images), "hf:facebook/dinov2-small", ...; None: the preset's
            encoder, usually "lite0".
        size: image size for the encoder, in pixels; None: the encoder's own.
        preset: "quick", "standard", or the paper's settings for a data set, such as "paper:cifar10".
        refine: also train encoder and head together (stage 3), which takes much longer and usually gains little.
        minutes: time limit for `refine`; None: a fixed number of steps.
        flip: allow mirrored views; use False for text and digits.
        device: device for fit and predict: "auto", "cpu", "cuda", "cuda:1", "mps".
        random_state: the same state gives the same groups.
        run_folder: folder for the results, so that a stopped fit can be resumed; None: they are not kept.
        verbose: show progress: bars in a notebook, lines on stderr elsewhere.

    Attributes:
        labels_: (N,) the group of each image; -1 if it could not be read.
        n_clusters_: the number of groups, given or found.
        plausible_n_clusters_: if the number was found, all plausible numbers, including `n_clusters_`.
        probabilities_: (N, K) the softmax output of the head. It is overconfident: use `chance_` to judge a label.
        chance_: (N,) the chance that the label is right.
        reliability_: (N,) the share of the nearest images that are in the same group.
        reliable_: (N,) whether that share is above the threshold.
        paths_: the names of the images.
        model_: the trained model, used by `predict`.
        answers_: all results; see `table` and `show`.
    """

    def __init__(
        self,
        n_clusters: int | tuple[int, int] | None = None,
        *,
        sizes: Sequence[float] | None = None,
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
        self.sizes = sizes
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
        """Group the images `X`; `y` is ignored."""
        settings = requested_settings(
            self.preset,
            clusters=self.n_clusters,
            sizes=None if self.sizes is None else as_shares(self.sizes),
            encoder=self.encoder,
            size=self.size,
            flip=self.flip,
            refine=self.refine,
            minutes=self.minutes,
            seed=_seed(self.random_state),
        )
        source = self._adapt(X, reset=True)
        temporary = self.run_folder is None
        with (
            _scratch() if self.run_folder is None else nullcontext(self.run_folder) as folder,
            show_progress(self.verbose) as progress,
        ):
            out = Path(folder)
            cluster(
                source, settings, out, page=not temporary, redo=True, download=True,
                device=self.device, progress=progress,
            )  # fmt: skip
            result = open_result(out)
            self.model_ = TrainedModel.load(result / MODEL, device=self.device)
            self.n_features_in_ = self.model_.encoder.features  # also of images: vectors of another width are refused
            self._set_results_(result, user_order(source, collection_of(result)), temporary=temporary)
        return self

    def fit_predict(self, X: SourceLike, y: object = None) -> NDArray[np.int32]:  # noqa: N803
        """Group the images `X` and return the group of each."""
        return self.fit(X, y).labels_

    def fit_transform(self, X: SourceLike, y: object = None) -> Floats:  # noqa: N803
        """Group the images `X` and return the probability of every group (N, K)."""
        return self.fit(X, y).probabilities_

    def transform(self, X: SourceLike) -> Floats:  # noqa: N803
        """The same as `predict_proba`, for scikit-learn pipelines: (Q, K)."""
        return self.predict_proba(X)

    def score(self, X: SourceLike, y: object = None) -> float:  # noqa: N803, ARG002
        """Mean silhouette of the features, -1 to 1: how well the groups are separated. For parameter searches.

        It needs no labels. Unlike reliability and neighbor agreement, it does not simply fall as groups are added.
        Images that cannot be read do not count; of many images, a sample of 5,000 is scored.
        """
        features, order, _ = self._features(X)
        cluster = self.model_.predict_features(features).cluster
        rows = np.unique(order.rows[order.rows >= 0])
        rows = np.random.default_rng(0).permutation(rows)[:_MOST_SCORED]
        labels = cluster[rows]
        if not 1 < len(np.unique(labels)) < len(labels):
            return -1.0  # the silhouette is undefined
        return float(silhouette_score(normalize(features[rows].numpy()), labels))

    def table(self) -> Any:
        """The results as a pandas DataFrame: path, group, name, chance and every column of labels.csv.

        With a `run_folder`, it includes edits made since the fit.
        """
        return self._answers().table()

    def show(self, group: int | str | None = None, *, images: int | None = None) -> Image.Image:
        """A PIL image with the most typical images of a group (number or name), or with one row for each group."""
        return self._answers().sheet(group, images)

    def open(self, *, browser: bool = True) -> str:
        """Start the explorer, like `spice open`, and return its address. It runs until this process ends.

        Needs a `run_folder`. `table` and `show` include your edits immediately.
        """
        run = self._answers().run
        if run is None:
            raise UserError("there is no run folder to open; fit with one: SPICE(10, run_folder='photos.spice')")
        return explore(run, browser=browser)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # noqa: N803 - scikit-learn's signature
        text: str = super().__repr__(N_CHAR_MAX)
        return f"{text}: {self.answers_.summary()}" if hasattr(self, "answers_") else text

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # probabilities are always float32
        return tags

    def _repr_mimebundle_(self, **options: object) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        if hasattr(self, "answers_") and "text/html" in bundle:
            bundle["text/html"] += f"<p>{self.answers_.summary()}</p>"
        return bundle

    def _set_results_(self, result: Result, order: UserOrder, *, temporary: bool) -> None:
        labels = result.labels
        self.labels_ = filled(labels.cluster, order.rows)
        self.n_clusters_ = result.answer.clusters
        found = result.howmany
        self.plausible_n_clusters_ = [self.n_clusters_] if found is None else [one.clusters for one in found.candidates]
        self.probabilities_ = filled(open_array(result / PROBABILITIES), order.rows)
        self.chance_ = filled(labels.chance, order.rows)
        self.reliability_ = filled(labels.reliability, order.rows)
        self.reliable_ = filled(labels.reliable, order.rows)
        self.paths_ = order.names
        self.answers_ = answers_of(result, order.rows, order.names, temporary=temporary)
        self._n_features_out = self.model_.head.clusters

    def _answers(self) -> Answers:
        check_is_fitted(self, "model_")
        if not hasattr(self, "answers_"):
            raise UserError(
                "a model alone contains no images; call fit, or load the whole run: spice.load('photos.spice')"
            )
        answers: Answers = self.answers_
        return answers

    def predict(self, X: SourceLike) -> NDArray[np.int32]:  # noqa: N803
        """Sort new images into the fitted groups; -1 for an image that cannot be read."""
        found, order, _ = self._predict(X)
        return filled(found.cluster, order.rows)

    def predict_proba(self, X: SourceLike) -> Floats:  # noqa: N803
        """The probability of every group for each new image: (Q, K)."""
        found, order, _ = self._predict(X)
        return filled(found.probabilities, order.rows)

    def assess(self, X: SourceLike, *, progress: Progress | None = None) -> "Assessment":  # noqa: N803
        """All results for new images: paths and predictions of readable images, and a list of unreadable files."""
        found, order, problems = self._predict(X, progress)
        rows = order.rows[order.rows >= 0]
        names = [name for name, row in zip(order.names, order.rows, strict=True) if row >= 0]
        return Assessment(names, found.rows(rows), problems)

    def save(self, folder: str | os.PathLike[str], *, embed: bool = False) -> None:
        """Save the model to `folder`; with `embed`, include the encoder's weights."""
        check_is_fitted(self, "model_")
        self.model_.save(Path(folder), embed=embed)

    def _predict(
        self, images: SourceLike, progress: Progress | None = None
    ) -> tuple[Predictions, UserOrder, tuple[Problem, ...]]:
        features, order, problems = self._features(images, progress)
        return self.model_.predict_features(features), order, problems

    def _features(
        self, images: SourceLike, progress: Progress | None = None
    ) -> tuple[Tensor, UserOrder, tuple[Problem, ...]]:
        check_is_fitted(self, "model_")
        encoder = self.model_.encoder
        source = self._adapt(images, reset=False)
        if isinstance(source, Vectors):
            features = checked_vectors(source.values, source.label)
            names = source.names or [str(row) for row in range(len(features))]
            return features, UserOrder(np.arange(len(features)), names), ()
        if isinstance(encoder, NoEncoder):
            encoder.refuse()
        with _scratch() as folder, show_progress(self.verbose) as shown:
            progress = progress or shown
            store = ingest(source, size=encoder.size, folder=Path(folder), progress=progress)
            features = encode_plain(encoder, store, distinct=store.collection.distinct, progress=progress)
        return features, user_order(source, store.collection), store.collection.problems

    def _adapt(self, images: SourceLike, *, reset: bool) -> Adapted:
        """The images as a source; vectors are checked as scikit-learn checks them."""
        if is_table_of_numbers(images):
            return Vectors(
                validate_data(self, images, dtype=np.float32, ensure_min_samples=2 if reset else 1, reset=reset)
            )
        source = adapt(images)
        if isinstance(source, Vectors):
            try:
                validate_data(self, source.values, dtype=np.float32, reset=reset)
            except ValueError as error:  # a file of vectors may come from the command line
                raise UserError(f"{source.label}: {one_line(error)}") from None
        return source


class Assessment(NamedTuple):
    """Predictions for new images, with their paths and the files that could not be read."""

    paths: list[str]
    predictions: Predictions
    problems: tuple[Problem, ...]

    def columns(self) -> dict[str, Column]:
        """The predictions as columns, one row per image, without the probabilities of all groups."""
        found = self.predictions._asdict()
        del found["probabilities"]
        return {"path": self.paths, **found}


def load(folder: str | os.PathLike[str], *, device: str = "auto") -> SPICE:
    """Load a run folder (its current result, as if just fitted) or a model folder (only to predict)."""
    path = Path(folder)
    result = open_result(path) if is_run(path) else None
    model = TrainedModel.load(path if result is None else result.need(MODEL), device=device)
    loaded = SPICE(model.head.clusters, encoder=model.encoder.name, size=model.encoder.size, device=device)
    loaded.model_ = model
    loaded.n_features_in_ = model.encoder.features
    loaded._n_features_out = model.head.clusters
    if result is not None:
        loaded.run_folder = path
        loaded._set_results_(result, source_order(collection_of(result)), temporary=False)
    return loaded


def _scratch() -> TemporaryDirectory[str]:
    """A temporary folder. On Windows, arrays that are still mapped into memory stay until the system cleans up."""
    return TemporaryDirectory(prefix="spice-", ignore_cleanup_errors=os.name == "nt")


def _seed(state: int | np.random.RandomState | None) -> int:
    return int(state) if isinstance(state, int | np.integer) else int(check_random_state(state).randint(2**31 - 1))
