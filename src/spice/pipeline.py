"""The stages in order; skips what is done.

A step is a function from files of the run folder to files of the run folder. It is done when the manifest says so
under the same key, a hash of all that its result depends on. So the same command again, `spice resume`, and a change
of one setting are one and the same thing: run every step that is not done.
"""

import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue, ValidationError

from spice import steps
from spice.data import ImageStore, SourceLike, ingest
from spice.data.recognize import open_source
from spice.errors import SpiceWarning, UserError
from spice.models.encoders import SCRATCH, Encoder, load_encoder, load_trained
from spice.presets import joint_on_cpu
from spice.progress import Progress, silent
from spice.runs import Account, RunFolder, account, key_of, locked, told_in_words
from spice.runs.artifacts import (
    ENCODER,
    FEATURES,
    HEAD,
    HEAD_LABELS,
    HEADS,
    IMAGES,
    KMEANS,
    LABELS,
    LABELS_CSV,
    MAP,
    MODEL,
    NEIGHBORS,
    PICTURES,
    PROBABILITIES,
    PROBLEMS,
    REFINED,
    REPORT,
    SCORES,
    SIMILARITIES,
    STORE,
    VIEWS,
    Artifact,
)
from spice.runs.folder import refuse_foreign, sweep
from spice.settings import RunSettings
from spice.stages.heads import batch_size
from spice.stages.model import hash_of
from spice.steps import Figures, Work
from spice.training import SCRATCH_SIZE, feature_settings, train_encoder
from spice.version import __version__


class Step(NamedTuple):
    """One arrow of the pipeline."""

    name: str
    do: Callable[[Work], Figures]  # returns what is worth telling
    after: tuple[str, ...]  # the steps whose results it reads
    depends: Callable[[RunSettings], JsonValue]  # the settings that its result depends on
    makes: tuple[Artifact, ...]
    lends: tuple[tuple[Artifact, str], ...] = ()  # made for one other step, and not missed when that is done
    spoils: tuple[Artifact, ...] = ()  # what others made of its result: gone when the result is
    wanted: Callable[[RunSettings], bool] = lambda _: True


def cluster(
    source: SourceLike, settings: RunSettings, out: Path, *, redo: bool = False, progress: Progress = silent
) -> Account:
    """Group the images of `source`; the run folder `out` is begun, gone on with, or, with `redo`, replaced."""
    # What the user may have misspelled comes first, before anything is written.
    open_source(source)
    encoder = None if settings.encoder == SCRATCH else load_encoder(settings.encoder, size=settings.size)
    size = settings.size or SCRATCH_SIZE if encoder is None else encoder.size
    with told_in_words(out):
        refuse_foreign(out)
        out.mkdir(parents=True, exist_ok=True)
        with locked(out):
            sweep(out)
            run = RunFolder.begin_or_go_on(
                out, source=_name_of(source), settings=settings.model_dump(mode="json"), redo=redo
            )
            images = _scan(run, source, size, redo, progress)
            batch_size(len(images), settings.heads)  # refuses K > N in words, before the long work
            encoder = encoder or _trained(run, images, settings, progress)
            _run_steps(run, encoder, images, settings, progress)
    return account(out)


def resume(out: Path, *, progress: Progress = silent) -> Account:
    """Go on with the run in `out`."""
    run = RunFolder.open(out)
    if run.manifest.source is None:
        raise UserError(
            f"{out} was made from images in memory; go on by fitting them again with run_folder={str(out)!r}"
        )
    return cluster(run.manifest.source, _settings_of(run), out, progress=progress)


def refine(out: Path, *, minutes: float | None = None, progress: Progress = silent) -> Account:
    """Add joint training to the run in `out`; what is done stays done."""
    with told_in_words(out), locked(out):
        run = RunFolder.open(out)
        settings = _settings_of(run)
        flip = settings.views.augment.flip
        joint = joint_on_cpu(pretrained=settings.encoder != SCRATCH, minutes=minutes, flip=flip)
        run.update(settings=settings.model_copy(update={"joint": joint}).model_dump(mode="json"))
    return resume(out, progress=progress)


def _settings_of(run: RunFolder) -> RunSettings:
    try:
        return RunSettings.model_validate(run.manifest.settings)
    except ValidationError as error:
        what = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise UserError(
            f"{run.path} has settings that this version does not know ({what}); begin a new run with another --out"
        ) from None


def _name_of(source: SourceLike) -> str | None:
    """Where the images are, wherever the program is started from the next time."""
    return os.path.abspath(source) if isinstance(source, str | os.PathLike) else None  # noqa: PTH100 - keeps globs


def _scan(run: RunFolder, source: SourceLike, size: int, redo: bool, progress: Progress) -> ImageStore:
    """Look at the source every time: what has not changed is not read again, what has changed must not go unseen."""
    started = time.monotonic()
    # In a folder of its own, so that the run's table stays that of its labels if the images turn out to be others.
    images = ingest(source, size=size, folder=run / STORE, leave_out=[run.path], progress=progress)
    found = images.collection
    if run.manifest.input not in (None, found.identity) and run.has_results and not redo:
        raise UserError(
            f"the images have changed since this run began (there are {len(found):,} now); cluster them into another "
            "folder (--out), or replace this run with: spice cluster ... --redo"
        )
    key = key_of(found.identity, images.size, *found.paths)
    if not run.is_done("scan", key, (IMAGES, PROBLEMS)):
        found.save(run.path)
        run.update(input=found.identity)
        copies = int((found.copy_of >= 0).sum())
        figures: Figures = {"images": len(found), "problems": len(found.problems), "copies": copies}
        run.finish("scan", key, time.monotonic() - started, figures)
    return images


def _trained(run: RunFolder, images: ImageStore, settings: RunSettings, progress: Progress) -> Encoder:
    """A feature model trained on these images alone (III-A)."""
    chosen = feature_settings(images, settings).model_dump(mode="json")
    key = key_of("features", chosen, settings.seed, images.collection.identity, images.size)
    if not run.is_done("features", key, (ENCODER,)):
        started = time.monotonic()
        figures = train_encoder(run, images, settings, run.work("features", key), progress=progress)
        run.finish("features", key, time.monotonic() - started, figures)
    return load_trained(run / ENCODER)


def _run_steps(run: RunFolder, encoder: Encoder, images: ImageStore, settings: RunSettings, progress: Progress) -> None:
    keys = _keys(run, encoder, images, settings)
    # Results of other settings go first: labels that no longer belong to the images beside them would be a trap.
    for step, key in keys.items():
        if step.name in run.manifest.steps and run.manifest.steps[step.name].key != key:
            run.forget(step.name, (*step.makes, *(lent for lent, _ in step.lends), *step.spoils))
    done = {step.name for step, key in keys.items() if run.is_done(step.name, key, step.makes)}
    for step, key in keys.items():
        missed = (lent for lent, reader in step.lends if reader not in done)
        if not step.wanted(settings) or run.is_done(step.name, key, (*step.makes, *missed)):
            continue
        work = Work(run, encoder, images, settings, run.work(step.name, key), progress)
        started = time.monotonic()
        figures = _with_warnings(step.do, work)
        run.finish(step.name, key, time.monotonic() - started, figures)


def _keys(run: RunFolder, encoder: Encoder, images: ImageStore, settings: RunSettings) -> dict[Step, str]:
    # The names of images go into the labels alone: files that were moved are not encoded again.
    keys = {
        "encoder": key_of(encoder.name, hash_of(encoder)),
        "images": key_of(images.collection.identity, images.size),
        "names": run.manifest.steps["scan"].key,
    }
    found = {}
    for step in STEPS:
        found[step] = keys[step.name] = key_of(step.name, step.depends(settings), *(keys[name] for name in step.after))
    return found


def _with_warnings(do: Callable[[Work], Figures], work: Work) -> Figures:
    """Do the step, and keep its warnings with its figures: they belong to the result, not to one process's output."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SpiceWarning)
        figures = do(work)
    for warning in caught:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    told: list[JsonValue] = [str(warning.message) for warning in caught if issubclass(warning.category, SpiceWarning)]
    return {**figures, "warnings": told} if told else figures


def _clusters_and_seed(settings: RunSettings) -> JsonValue:
    return [settings.heads.clusters, settings.seed]


def _heads_and_seed(settings: RunSettings) -> JsonValue:
    return [settings.heads.model_dump(mode="json"), settings.seed]


def _joint_and_seed(settings: RunSettings) -> JsonValue:
    if settings.joint is None:
        return None
    return [settings.joint.model_dump(mode="json"), settings.reliability.model_dump(mode="json"), settings.seed]


STEPS = (
    Step(
        "views",
        steps.views,
        after=("encoder", "images"),
        depends=lambda settings: [settings.views.model_dump(mode="json"), settings.seed],
        makes=(FEATURES,),
        lends=((VIEWS, "heads"),),
    ),
    Step("kmeans", steps.kmeans, after=("views",), depends=_clusters_and_seed, makes=(KMEANS,)),
    Step("heads", steps.heads, after=("views",), depends=_heads_and_seed, makes=(HEADS, HEAD, HEAD_LABELS)),
    Step(
        "joint",
        steps.joint,
        after=("views", "heads"),
        depends=_joint_and_seed,
        makes=(REFINED,),
        wanted=lambda settings: settings.joint is not None,
    ),
    Step(
        "neighbors",
        steps.neighbors,
        after=("views", "joint"),
        depends=lambda settings: [settings.reliability.neighbors, settings.heads.clusters],
        makes=(NEIGHBORS, SIMILARITIES),
    ),
    Step(
        "labels",
        steps.labels,
        after=("names", "neighbors", "kmeans", "heads", "joint"),
        depends=lambda settings: settings.reliability.model_dump(mode="json"),
        makes=(PROBABILITIES, LABELS, LABELS_CSV),
        spoils=(SCORES,),
    ),
    Step("model", steps.model, after=("labels",), depends=lambda settings: settings.seed, makes=(MODEL,)),
    Step("pictures", steps.pictures, after=("labels",), depends=lambda _: None, makes=(MAP, PICTURES)),
    # A page of another version is written anew: that takes a moment.
    Step("report", steps.report, after=("model", "pictures"), depends=lambda _: __version__, makes=(REPORT,)),
)
