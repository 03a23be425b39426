"""The commands of a run: cluster, resume, refine, regroup.

Each runs only the steps that are not finished. So running the same command again resumes it, and another number of
clusters, another seed or a refinement reuses finished steps.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from spice.data import SourceLike
from spice.data.adapters import Adapted, adapt
from spice.data.originals import refuse_moved
from spice.data.recognize import open_source
from spice.data.remote import is_remote
from spice.data.store import DamagedStoreError
from spice.data.vectors import Vectors
from spice.engine.device import choose_device
from spice.engine.processes import join_processes
from spice.engine.run import Run
from spice.errors import NothingReadableError, NoticeWarning, UserError, warn_user
from spice.files import refuse_undecodable
from spice.models.encoders import SCRATCH, Encoder, load_encoder, with_precision
from spice.models.precomputed import NoEncoder
from spice.pipeline.execute import DamagedFileWarning, Execution
from spice.pipeline.resolve import chosen_precision, precision_before, stored_settings, working_size
from spice.pipeline.steps.scan import embedded_folder, read_embedded, read_inputs
from spice.pipeline.work import Inputs
from spice.presets import joint_on_cpu, with_clusters, with_cut_start, without_cut_start
from spice.progress import CanceledError, Progress, silent
from spice.runs import RunFolder, RunSummary, explain_write_errors, locked, update_csv
from spice.runs.editor import Editor
from spice.runs.folder import (
    clear_failed_start,
    create,
    is_run,
    refuse_foreign,
    refuse_links_outside,
    remove_partial_files,
)
from spice.settings import RunSettings, Stage
from spice.settings_file import apply_changes, read_changes
from spice.stages.groups.given_labels import SharedGroupError, apply_labels, placed_clusters
from spice.stages.joint.algorithms import find_algorithm
from spice.stages.joint.refine import refuse_untrainable

Engine = Literal["local", "ray"]


class SharedGroupWarning(NoticeWarning):
    """Images with different labels from the user are in one group, so no group was named."""


def cluster(
    source: SourceLike,
    settings: RunSettings,
    out: Path,
    *,
    last: Stage = "joint",
    page: bool = True,
    redo: bool = False,
    rescan: bool = False,
    download: bool = False,
    name_groups: bool = True,
    use: bool = True,
    device: str = "auto",
    engine: Engine = "local",
    address: str | None = None,
    progress: Progress = silent,
) -> RunSummary:
    """Group the images of `source`; the result is added to the run folder `out`, next to earlier ones.

    Args:
        last: stop after this stage, even if the settings include later ones; `resume` continues from there.
        page: whether to write the report.
        redo: use the run folder even if its images have changed.
        rescan: reread every image, even if its name, size and date are unchanged.
        download: download the encoder if necessary; only for a name that the user gives now.
        name_groups: turn the labels in the settings into edits.
        use: make the result the current one; otherwise only add it.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        engine: where to read and embed images: in this process, or on a Ray cluster. Results are the same.
        address: address of the Ray cluster. None: start one on this machine.
    """
    # Check everything that the user may have misspelled before anything is written.
    refuse_undecodable(_absolute(source) or "", settings.extra or "", str(out))
    adapted = adapt(source)
    vectors = isinstance(adapted, Vectors)
    if not vectors:
        open_source(adapted)
    _refuse_contradictions(settings, vectors=vectors)
    _refuse_on_ray(settings, engine, vectors=vectors)
    place = choose_device(device)
    encoder = None if vectors else _pretrained(settings, place, download=download)
    with _forget_if_canceled(out), explain_write_errors(out), join_processes(place) as processes:
        run = Run(settings.seed, None, place, processes, progress if processes.first else silent)
        with _open_run(out, run, source, settings) as folder:
            command = _Command(
                folder, adapted, _absolute(source), encoder, run,
                page=page, use=use, redo=redo, engine=engine, address=address,
            )  # fmt: skip
            if not (settings.given and name_groups and last != "features"):
                return command.carry_out(settings, last, rescan=rescan)
            # The user's labels become edits of the stage-2 result; joint training learns them.
            summary = command.carry_out(settings, "heads", rescan=rescan)
            placed = _labels_to_edits(out, settings, run)
            if last == "heads" or settings.joint is None:
                return summary
            return command.carry_out(settings.model_copy(update={"placed": placed}), last)


def resume(out: Path, *, rescan: bool = False, device: str = "auto", progress: Progress = silent) -> RunSummary:
    """Resume the last command; a finished run stays unchanged."""
    folder = RunFolder.open(out)
    unfinished = folder.manifest.pending is not None  # edits of a finished run stay as they are
    return cluster(
        _source_of(folder), _requested(folder), out,
        rescan=rescan, name_groups=unfinished, device=device, progress=progress,
    )  # fmt: skip


def refine(
    out: Path,
    *,
    minutes: float | None = None,
    settings_file: Path | None = None,
    use: bool = True,
    device: str = "auto",
    progress: Progress = silent,
) -> RunSummary:
    """Add joint training to the current result of the run in `out`; it learns from images that people placed.

    Args:
        settings_file: a TOML file with settings to change.
        use: make the new result the current one.
    """
    folder = RunFolder.open(out)
    settings = _requested(folder, current_first=True)
    if settings_file is not None:
        settings = apply_changes(settings, read_changes(settings_file), path=settings_file)
    pretrained, flip = settings.encoder != SCRATCH, settings.views.augment.flip
    joint = settings.joint or joint_on_cpu(pretrained=pretrained, flip=flip)
    if minutes is not None:
        joint = joint.model_copy(update={"minutes": minutes})
    with join_processes(choose_device(device)) as processes:
        processes.barrier()  # all read the edits that the first may have just added
        settings = settings.model_copy(update={"joint": joint, "placed": placed_clusters(Editor(out))})
        return cluster(_source_of(folder), settings, out, name_groups=False, use=use, device=device, progress=progress)


def _labels_to_edits(out: Path, settings: RunSettings, run: Run) -> dict[str, int]:
    """Turn the user's labels into edits of the current result; returns the cluster of every image a person placed."""
    if run.processes.first:
        try:
            apply_labels(Editor(out), settings.given)
            update_csv(out)
        except SharedGroupError as error:
            if settings.joint is not None:
                raise
            warn_user(str(error), SharedGroupWarning)
    run.processes.barrier()
    return placed_clusters(Editor(out)) if settings.joint is not None else {}


def regroup(
    out: Path, clusters: int, *, cut: bool = False, device: str = "auto", progress: Progress = silent
) -> RunSummary:
    """Group the same images into another number of groups, with the same settings. The result becomes the current one.

    Args:
        cut: start from the merge tree, cut at this number.
    """
    folder = RunFolder.open(out)
    settings = _requested(folder, current_first=True)
    heads = with_clusters(without_cut_start(settings.heads), clusters)
    update: dict[str, object] = {
        "heads": with_cut_start(heads) if cut else heads,
        "how_many": None,
        "joint": None,
        "placed": {},
    }
    return cluster(
        _source_of(folder), settings.model_copy(update=update), out,
        name_groups=False, device=device, progress=progress,
    )  # fmt: skip


class _Command(NamedTuple):
    """A command in a locked run folder: reads the images and runs the steps that are not finished."""

    folder: RunFolder
    images: Adapted
    source: str | None  # as the manifest has it
    pretrained: Encoder | None  # None: stage 1 trains it, or there are vectors
    run: Run
    page: bool
    use: bool
    redo: bool
    engine: Engine
    address: str | None

    def carry_out(self, settings: RunSettings, last: Stage, *, rescan: bool = False) -> RunSummary:
        """Run the steps up to the stage `last`; images whose decoded pixels are damaged are read again."""
        try:
            return self._carry_out(settings, last, rescan=rescan)
        except DamagedStoreError as error:
            if rescan or self.run.processes.count > 1:  # the other processes would wait for this one
                raise
            warn_user(f"{str(error).partition(';')[0]}; rereading the images", DamagedFileWarning)
            return self._carry_out(settings, last, rescan=True)

    def _carry_out(self, settings: RunSettings, last: Stage, *, rescan: bool) -> RunSummary:
        inputs, encoder = self._read(settings, rescan=rescan)
        if encoder is not None:
            precision = chosen_precision(self.folder.manifest, settings, encoder, inputs, self.run)
            encoder = with_precision(encoder, precision)
            settings = settings.model_copy(update={"precision": precision})
        execution = Execution(self.folder, settings, inputs, encoder, self.run, page=self.page, use=self.use)
        return execution.carry_out(self.source, last, redo=self.redo)

    def _read(self, settings: RunSettings, *, rescan: bool) -> tuple[Inputs, Encoder | None]:
        """The images or vectors, and their encoder."""
        started, out, run = time.monotonic(), self.folder.path, self.run
        encoder = _ray_encoder(self.folder, settings, self.pretrained, self.engine)
        if encoder is not None:
            inputs = read_embedded(self.images, out, encoder=encoder, address=self.address, run=run, rescan=rescan)
        else:
            size = working_size(settings, self.pretrained)
            inputs = read_inputs(self.images, out, size=size, run=run, extra=settings.extra, rescan=rescan)
            encoder = self.pretrained if inputs.vectors is None else NoEncoder(inputs.vectors.shape[1])
        return inputs._replace(seconds=time.monotonic() - started), encoder


def _pretrained(settings: RunSettings, device: torch.device, *, download: bool) -> Encoder | None:
    """The encoder by its name; None if stage 1 trains it."""
    if settings.encoder == SCRATCH:
        return None
    encoder = load_encoder(settings.encoder, size=settings.size, device=device, download=download)
    if settings.joint is not None:
        refuse_untrainable(encoder)
    return encoder


@contextmanager
def _forget_if_canceled(out: Path) -> Iterator[None]:
    """A canceled run is not resumed later. A killed one is."""
    before = RunFolder.open(out).manifest.pending if is_run(out) else None
    try:
        yield
    except CanceledError:
        RunFolder.open(out).update(pending=before)
        raise


@contextmanager
def _open_run(out: Path, run: Run, source: SourceLike, settings: RunSettings) -> Iterator[RunFolder]:
    """The run folder, locked by the first process and read by the others."""
    first = run.processes.first
    is_new = first and not is_run(out)
    if first:
        refuse_foreign(out)
        create(out)
        refuse_links_outside(out)
    run.processes.barrier()
    try:
        with locked(out) if first else nullcontext():
            if first:
                remove_partial_files(out)
                pending = settings.model_dump(mode="json")
                folder = RunFolder.open_or_create(out, source=_absolute(source), pending=pending)
            run.processes.barrier()
            yield folder if first else RunFolder.open(out)
    except NothingReadableError as error:
        if not is_new:
            raise
        problems = clear_failed_start(out)
        raise NothingReadableError(f"{error}{f' (listed in {problems})' if problems else ''}") from None


def _ray_encoder(folder: RunFolder, settings: RunSettings, encoder: Encoder | None, engine: Engine) -> Encoder | None:
    """The encoder that runs on a Ray cluster, if that was requested now or earlier; None: this process encodes.

    It computes in floats unless integers were requested: machines of a cluster may compute integers differently.
    """
    if encoder is None:
        return None
    asked = settings.precision if settings.precision != "auto" else precision_before(folder.manifest, settings)
    found = with_precision(encoder, asked or "float32")
    return found if engine == "ray" or embedded_folder(folder.path, found).exists() else None


def _absolute(source: SourceLike) -> str | None:
    """The absolute path of the images, valid from any working directory."""
    if isinstance(source, str) and is_remote(source):
        return source
    return os.path.abspath(source) if isinstance(source, str | os.PathLike) else None  # noqa: PTH100 - keeps globs


def _source_of(folder: RunFolder) -> str:
    if folder.manifest.source is None:
        raise UserError(
            f"{folder.path} was made from images in memory; call fit again with run_folder={str(folder.path)!r}"
        )
    refuse_moved(folder.manifest.source, folder.path)
    return folder.manifest.source


def _requested(folder: RunFolder, *, current_first: bool = False) -> RunSettings:
    """The settings of an unfinished command, or those of the current result."""
    current, pending = folder.manifest.requested, folder.manifest.pending
    requested = current or pending if current_first else pending or current
    if requested is None:
        raise UserError(f"{folder.path} is incomplete; start again with: spice cluster")
    return stored_settings(requested, folder.path, advice="start a new run with --out")


def _refuse_on_ray(settings: RunSettings, engine: Engine, *, vectors: bool) -> None:
    if engine != "ray":
        return
    if vectors:
        raise UserError("feature vectors are already embedded; remove --engine ray")
    if settings.encoder.startswith("features:"):
        raise UserError("features from a file are already embedded; remove --engine ray")
    if settings.encoder == SCRATCH or settings.views.space != "features" or settings.views.fresh:
        raise UserError(
            "--engine ray needs a pretrained encoder and views.space = features, because it embeds every image once"
        )
    if settings.extra is not None:
        raise UserError("--extra does not work with --engine ray; remove one of them")


def _refuse_contradictions(settings: RunSettings, *, vectors: bool) -> None:
    if settings.joint is not None:
        find_algorithm(settings.joint.algorithm)
    if settings.precision == "int8" and settings.encoder == SCRATCH:
        raise UserError("encoders trained from scratch do not support 8-bit integers; remove precision = 'int8'")
    if vectors and settings.joint is not None:
        raise UserError(
            "feature vectors cannot be refined, because there is no encoder to train; cluster the images instead"
        )
