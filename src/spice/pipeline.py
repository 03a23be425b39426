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

from pydantic import JsonValue, ValidationError

from spice.data import ImageStore, SourceLike, ingest
from spice.data.recognize import open_source
from spice.errors import SpiceWarning, UserError
from spice.models.encoders import SCRATCH, Encoder, load_encoder, load_trained
from spice.order import Step, keys_of
from spice.presets import joint_on_cpu
from spice.progress import Progress, duration, log, silent
from spice.runs import Account, RunFolder, account, key_of, locked, read_manifest, told_in_words
from spice.runs.artifacts import ENCODER, IMAGES, PROBLEMS, STORE
from spice.runs.folder import make, refuse_foreign, sweep
from spice.settings import RunSettings, Stage
from spice.stages.heads.inputs import batch_size
from spice.stages.joint.algorithms import find_algorithm
from spice.stages.joint.given import find_given
from spice.stages.joint.refine import estimated_seconds, refuse_untrainable
from spice.steps import Figures, Work
from spice.training import SCRATCH_SIZE, feature_settings, train_encoder


class NoPageWarning(SpiceWarning):
    """What the page shows, or the page itself, could not be made."""


def cluster(
    source: SourceLike,
    settings: RunSettings,
    out: Path,
    *,
    last: Stage = "joint",
    page: bool = True,
    redo: bool = False,
    progress: Progress = silent,
) -> Account:
    """Group the images of `source`; the run folder `out` is begun, gone on with, or, with `redo`, replaced.

    It stops after the stage `last`, if the settings ask for more: `resume` goes on from there. Without a `page`, none
    is made, nor what only the page shows.
    """
    # What the user may have misspelled comes first, before anything is written.
    open_source(source)
    encoder = None if settings.encoder == SCRATCH else load_encoder(settings.encoder, size=settings.size)
    size = settings.size or SCRATCH_SIZE if encoder is None else encoder.size
    if settings.joint is not None:
        find_algorithm(settings.joint.algorithm)
    if settings.joint is not None and encoder is not None:
        refuse_untrainable(encoder)
    if settings.given and settings.joint is None:
        raise UserError("labels are learned by joint training: ask for it too (--refine)")
    with told_in_words(out):
        refuse_foreign(out)
        make(out)
        with locked(out):
            sweep(out)
            run = RunFolder.begin_or_go_on(
                out, source=_name_of(source), settings=settings.model_dump(mode="json"), redo=redo
            )
            images = _scan(run, source, size, redo, progress)
            batch_size(len(images), settings.heads)  # refuses K > N in words, before the long work
            find_given(settings.given, images.collection.paths)  # and a label for an image that is not there
            encoder = encoder or _trained(run, images, settings, progress)
            _run_steps(run, encoder, images, _up_to(last, run, settings), last=last, page=page, progress=progress)
    return account(out)


def resume(out: Path, *, progress: Progress = silent) -> Account:
    """Go on with the run in `out`."""
    run = RunFolder.open(out)
    if run.manifest.source is None:
        raise UserError(
            f"{out} was made from images in memory; go on by fitting them again with run_folder={str(out)!r}"
        )
    return cluster(run.manifest.source, _settings_of(run), out, progress=progress)


def refine(
    out: Path, *, minutes: float | None = None, labels: dict[str, str] | None = None, progress: Progress = silent
) -> Account:
    """Add joint training to the run in `out`; what is done stays done.

    Args:
        labels: by path, of a few images, to be learned from.
    """
    read_manifest(out)  # says in words if there is none, before anything is locked
    with told_in_words(out), locked(out):
        run = RunFolder.open(out)
        settings = _settings_of(run)
        if settings.encoder != SCRATCH:
            refuse_untrainable(load_encoder(settings.encoder, size=settings.size))
        flip = settings.views.augment.flip
        joint = settings.joint or joint_on_cpu(pretrained=settings.encoder != SCRATCH, flip=flip)
        if minutes is not None:
            joint = joint.model_copy(update={"minutes": minutes})
        given = settings.given if labels is None else labels
        settings = settings.model_copy(update={"joint": joint, "given": given})
        run.update(settings=settings.model_dump(mode="json"))
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
    if run.is_done("features", key, (ENCODER,)):
        run.clear_work("features")
    else:
        started = time.monotonic()
        figures = train_encoder(run, images, settings, run.work("features", key), progress=progress)
        run.finish("features", key, time.monotonic() - started, figures)
    return load_trained(run / ENCODER)


def _up_to(last: Stage, run: RunFolder, settings: RunSettings) -> RunSettings:
    """Without joint training where the user wants to see what is there before it; what is done already stays."""
    if last == "joint" or "joint" in run.manifest.steps:
        return settings
    return settings.model_copy(update={"joint": None})


def _run_steps(
    run: RunFolder,
    encoder: Encoder,
    images: ImageStore,
    settings: RunSettings,
    *,
    last: Stage,
    page: bool,
    progress: Progress,
) -> None:
    keys = keys_of(run, encoder, images, settings)
    _tell_how_long(run, keys, encoder, images, settings)
    # Results of other settings go first: labels that no longer belong to the images beside them would be a trap.
    for step, key in keys.items():
        if step.name in run.manifest.steps and run.manifest.steps[step.name].key != key:
            run.forget(step.name, (*step.makes, *(lent for lent, _ in step.lends), *step.spoils))
    done = {step.name for step, key in keys.items() if run.is_done(step.name, key, step.makes)}
    for step, key in keys.items():
        missed = (lent for lent, reader in step.lends if reader not in done)
        if not step.wanted(settings):
            continue
        if run.is_done(step.name, key, (*step.makes, *missed)):
            run.clear_work(step.name)
            continue
        if (last == "features" and step.name != "views") or not (page or step.needed):
            break
        work = Work(run, encoder, images, settings, run.work(step.name, key), progress)
        started = time.monotonic()
        figures = _with_warnings(step.do if step.needed else _shown(step.do), work)
        run.finish(step.name, key, time.monotonic() - started, figures)
        if not run.is_done(step.name, key, step.makes):
            break


def _tell_how_long(
    run: RunFolder, keys: dict[Step, str], encoder: Encoder, images: ImageStore, settings: RunSettings
) -> None:
    """Joint training takes long: say how long before it begins; one that goes on shows what is left."""
    (joint,) = (step for step in keys if step.name == "joint")
    if settings.joint is None or run.is_done("joint", keys[joint], joint.makes) or run.has_work("joint"):
        return
    seconds = estimated_seconds(encoder, settings.joint, clusters=settings.heads.clusters, images=len(images))
    log.info(f"joint training: it will take about {duration(seconds)}, after the heads")


def _shown(do: Callable[[Work], Figures]) -> Callable[[Work], Figures]:
    """The same step, and a warning where it fails: the answer is written, and only its picture is missing."""

    def tried(work: Work) -> Figures:
        try:
            return do(work)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not take the answer with it
            words = f"the page could not be made ({type(error).__name__}: {error}); the labels are all there. "
            warnings.warn(f"{words}Try again with: spice resume {work.run.path}", NoPageWarning, stacklevel=2)
            return {}

    return tried


def _with_warnings(do: Callable[[Work], Figures], work: Work) -> Figures:
    """Do the step, and keep its warnings with its figures: they belong to the result, not to one process's output."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SpiceWarning)
        figures = do(work)
    for warning in caught:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    told: list[JsonValue] = [
        {"name": warning.category.__name__, "text": str(warning.message)}
        for warning in caught
        if issubclass(warning.category, SpiceWarning)
    ]
    return {**figures, "warnings": told} if told else figures
