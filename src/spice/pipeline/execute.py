"""Executes a plan: runs every unfinished step, then makes its result the current one."""

import shutil
import time
import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import cast

import torch

from spice.arrays import array_name, remove_array
from spice.engine.run import Run
from spice.errors import NothingTrustworthyError, NoticeWarning, SpiceWarning, UserError, warn_user
from spice.models.encoders import SCRATCH, Encoder
from spice.pipeline.background import MOST_IMAGES
from spice.pipeline.image_flags import flag_images
from spice.pipeline.plan import MADE_BY, STEPS_IN_ORDER, Plan, Step, plan
from spice.pipeline.resolve import resolve
from spice.pipeline.steps.kmeans import labels_of
from spice.pipeline.work import Inputs, Work
from spice.progress import duration, log
from spice.report.embedding import embed
from spice.runs import Result, RunFolder, RunSummary, summarize, update_csv
from spice.runs.edits import read_edits
from spice.runs.folder import UNFINISHED
from spice.runs.manifest import ResultEntry, now, versions
from spice.runs.records import HowManyResult, Record, StepResult, StepWarning, read_record, stamp_files, write_record
from spice.settings import RunSettings, Stage
from spice.stages.groups.given_labels import labels_by_row
from spice.stages.joint.refine import estimated_seconds
from spice.wording import quoted

# Other commands read the files of these steps, so they are checked for damage even if every step is finished.
READ_BY_OTHERS = frozenset(
    ("scan", "encode", "neighbors", "howmany", "tree", "kmeans", "joint", "labels", "model", "map", "words")
)
# Most of these steps show no progress, but together they take seconds.
AFTER_TRAINING = ("labels", "model", "map", "words", "pictures", "report")
BY_NAME = {step.name: step for step in STEPS_IN_ORDER}


class DamagedFileWarning(NoticeWarning):
    """A file of the run folder changed after it was written; it is recreated."""


class NoPageWarning(SpiceWarning):
    """The report, or something that it shows, could not be written."""


class Execution:
    """Carries out one plan in a run folder."""

    def __init__(
        self,
        folder: RunFolder,
        requested: RunSettings,
        inputs: Inputs,
        encoder: Encoder | None,
        run: Run,
        *,
        page: bool = True,
        use: bool = True,
    ) -> None:
        self.folder, self.requested, self.inputs, self.encoder = folder, requested, inputs, encoder
        self.run, self.page, self.use = run, page, use
        self.failed: list[StepWarning] = []
        self.verified: set[str] = set()  # keys of the steps whose files this process has checked or written
        self.cpu_seconds = 0.0  # spent on steps by this process
        self._plan_for(requested)

    def carry_out(self, source: str | None, last: Stage, *, redo: bool) -> RunSummary:
        """Run what is not finished yet, up to the stage `last`."""
        self._refuse_other_images(redo)
        labels_by_row(self.settings.given, self.inputs.collection.paths)  # refuses unknown images before any work
        if self.run.processes.first and self.folder.manifest.source != source:
            self.folder.update(source=source)
        stopped_before = None
        if last != "joint" and not self.is_done("labels"):
            self._plan_for(self.requested.model_copy(update={"joint": None}))
            stopped_before = "joint training" if self.requested.joint is not None else None
        if not self._is_complete():
            if self.run.processes.first:
                self.folder.update(
                    pending=self.requested.model_dump(mode="json"), input=self.inputs.collection.identity
                )
            self._announce_joint_training()
        if last == "features" and not self.is_done("labels"):
            self.ensure("scan")
            self.ensure("views")
            return self._summary("the labels")
        self._find_clusters()
        try:
            self._finish()
        finally:
            self.work.background.cancel()
        if self.run.processes.first and stopped_before is None and self.folder.manifest.pending is not None:
            self.folder.update(pending=None)
        return self._summary(stopped_before)

    def ensure(self, name: str) -> Record[StepResult]:
        """The record of a step. Runs it first if it is not finished, and before it the steps it depends on."""
        record = self.record(name)
        unfinished = self.work.folders[name] / UNFINISHED
        if self._first_process_says(record is not None):
            record = record or self.record(name)
            assert record is not None, "all processes see the same files"
            if self.run.processes.first and unfinished.exists():  # killed after the record was written
                shutil.rmtree(unfinished)
            return record
        step = BY_NAME[name]
        makers = [MADE_BY.get(before, before) for before in step.after]
        makers = [maker for maker in makers if maker != name and maker in self.plan.folders]
        for maker in makers:
            self.ensure(maker)
        for maker in makers:
            self._verify(maker)
        for artifact in step.needs:
            made = self.record(artifact.step)
            intact = made is not None and made.is_intact(self.work.folders[artifact.step], [artifact.name])
            if not self._first_process_says(intact):
                self._do(BY_NAME[artifact.step])
        if name == "heads":  # only now: a damaged input may just have been recreated
            self._start_background_work()
        return self._do(step)

    def _verify(self, name: str) -> None:
        """Check the files of a step for damage before another step uses them; once per process."""
        key = self.plan.keys[name]
        record, folder = self.record(name), self.work.folders[name]
        damaged = [] if record is None or key in self.verified else record.damaged(folder)
        self.verified.add(key)
        if self._first_process_says(bool(damaged)):
            self._do(BY_NAME[name])
            self._forget_what_was_loaded()

    def is_done(self, name: str) -> bool:
        """Whether a step is finished with these settings, and its files still exist."""
        return self.record(name) is not None

    def record(self, name: str) -> Record[StepResult] | None:
        """The record of a finished step; None if it has to run."""
        step, folder = BY_NAME[name], self.work.folders[name]
        try:
            record = read_record(folder, name)
        except UserError:  # damaged: the step is run again
            return None
        if record is None or record.key != self.plan.keys[name]:
            return None
        rewritten = {made.name for made in step.makes if made.rewritten}
        lasting = {made.name for made in step.makes if not made.deletable} - rewritten
        complete = record.is_intact(folder, lasting) and all((folder / name).exists() for name in rewritten)
        return record if complete else None

    def _find_clusters(self) -> None:
        """If the number of clusters is not given, find it and plan for it."""
        if self.unresolved.how_many is None:
            return
        self.ensure("scan")
        found = cast(HowManyResult, self.ensure("howmany").result)
        if found.clusters is None:
            raise NothingTrustworthyError(
                f"no clear groups: the features score {max(found.score):.2f}, shuffled ones {found.null:.2f}. To group "
                "these images anyway, set the number with -k, or try another --encoder"
            )
        self._plan_for(self.unresolved)

    def _plan_for(self, settings: RunSettings) -> None:
        """Plan the steps; until the number of clusters is found, only those up to that step are final."""
        self._plan(settings, None)
        record = self.record("howmany") if settings.how_many is not None else None
        if record is not None:
            self._plan(settings, cast(HowManyResult, record.result).clusters)

    def _plan(self, settings: RunSettings, found: int | None) -> None:
        self.unresolved = settings
        self.settings = resolve(settings, self.inputs, self.encoder, found)
        self.plan: Plan = plan(self.settings, self.inputs, self.encoder)
        known = self.folder.manifest.results.get(self.plan.name)
        if known is not None:  # the same result may have been requested in another way: with -k, or without
            known = known.model_copy(update={"folders": {**known.folders, **self.plan.folders}})
        self.entry = known or ResultEntry(
            requested=settings.model_dump(mode="json"),
            settings=self.settings.model_dump(mode="json"),
            folders=self.plan.folders,
            created=now(),
            versions=versions(),
        )
        self.steps = [name for name in self.plan.folders if self.page or not BY_NAME[name].optional]
        self.result = Result(self.folder.path, self.folder.manifest, self.plan.name, self.entry)
        self._forget_what_was_loaded()

    def _forget_what_was_loaded(self) -> None:
        self.work = Work(self.settings, self.inputs, self.run, self.result, self.encoder)

    def _finish(self) -> None:
        """Run all steps and publish the result: the first one as soon as it has labels, others when complete."""
        left = [name for name in AFTER_TRAINING if name in self.steps and not self.is_done(name)]
        for step in self.steps:
            try:
                if step in left:
                    self.run.progress("labels and report", left.index(step), len(left))
                self.ensure(step)
                if left and step == left[-1]:
                    self.run.progress("labels and report", len(left), len(left))
                if step in READ_BY_OTHERS:
                    self._verify(step)
            except Exception as error:
                if not BY_NAME[step].optional or isinstance(error, UserError):
                    raise
                if self.run.processes.first:
                    self._warn_of_missing_page(error)
                break
            if step == "model" and self.folder.manifest.current is None:
                self._publish()
        self._publish()

    def _start_background_work(self) -> None:
        """While the heads train, compute in the background what depends on the features alone."""
        work, run = self.work, self.run
        wanted = [name for name in ("kmeans", "map") if name in self.steps and not self.is_done(name)]
        if run.processes.count > 1 or len(work) > MOST_IMAGES:
            return
        if "kmeans" in wanted:
            work.background.start("kmeans", partial(labels_of, work, run))
        if not self.is_done("labels") and not self.settings.views.fresh:  # fresh views read the images, too
            work.background.start("image flags", partial(flag_images, work))
        if "map" in wanted and self.settings.joint is None:
            work.background.start("map", partial(embed, work.features.numpy()))

    def _publish(self) -> None:
        if self.run.processes.first:
            self.folder.publish(self.plan.name, self.entry, use=self.use)
            if read_edits(self.folder.path).edits:  # names and corrections of earlier results carry over
                update_csv(self.folder.path)
        self.run.processes.barrier()

    def _do(self, step: Step) -> Record[StepResult]:
        folder, processes = self.work.folders[step.name], self.run.processes
        folder.mkdir(parents=True, exist_ok=True)
        if processes.first:
            _remove_damaged(folder, step)
        processes.barrier()
        if step.in_all_processes:
            record = self._run_step(step, folder)
            processes.barrier()
            return record
        found: Record[StepResult] | Exception | None = None
        if processes.first:
            try:
                found = self._run_step(step, folder)
            except Exception as error:  # noqa: BLE001 - raised below, when the other processes know
                found = error
        if self._first_process_says(isinstance(found, Exception)):
            fatal = self._first_process_says(isinstance(found, UserError))
            other = UserError if fatal else RuntimeError
            raise found if isinstance(found, Exception) else other(f"the first process could not finish {step.name}")
        found = found or read_record(folder, step.name)
        assert isinstance(found, Record)
        return found

    def _run_step(self, step: Step, folder: Path) -> Record[StepResult]:
        started, cpu = time.monotonic(), time.process_time()
        if step.name == "scan":  # the images were read before the plan, which depends on them
            started -= self.inputs.seconds
        result, caught = self._with_warnings(step, folder)
        record = Record[StepResult](
            step=step.name,
            key=self.plan.keys[step.name],
            seconds=round(time.monotonic() - started, 3),
            cpu_seconds=round(time.process_time() - cpu, 3),
            finished=now(),
            warnings=caught,
            files=stamp_files(folder, [made.name for made in step.makes]),
            result=result,
        )
        self.cpu_seconds += record.cpu_seconds
        self.verified.add(record.key)
        if self.run.processes.first:
            write_record(folder, record)
            shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
        return record

    def _first_process_says(self, answer: bool) -> bool:
        """The first process's answer, given to all processes, so that they take the same path."""
        return bool(self.run.processes.gather(torch.tensor([int(answer)], device=self.run.device))[0])

    def _with_warnings(self, step: Step, folder: Path) -> tuple[StepResult, list[StepWarning]]:
        """Run the step. Its warnings are shown, and saved with its result."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", SpiceWarning)
            result = step.do(self.work, self.run.with_folder(folder / UNFINISHED))
        for warning in caught:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        ours = (warning for warning in caught if issubclass(warning.category, SpiceWarning))
        return result, [StepWarning(name=one.category.__name__, text=str(one.message)) for one in ours]

    def _summary(self, stopped_before: str | None) -> RunSummary:
        found = summarize(self.result.reread(), stopped_before=stopped_before)
        return found.model_copy(update={"warnings": [*found.warnings, *self.failed]})

    def _is_complete(self) -> bool:
        return self.folder.manifest.current == self.plan.name and all(map(self.is_done, self.steps))

    def _refuse_other_images(self, redo: bool) -> None:
        known, found = self.folder.manifest.input, self.inputs.collection
        if known not in (None, found.identity) and self.folder.has_results and not redo:
            raise UserError(
                f"the images have changed since this run began (there are {len(found):,} now); cluster them into "
                "another folder (--out), or add --redo to cluster them here (earlier results are kept)"
            )

    def _announce_joint_training(self) -> None:
        """Before the heads start, log how long joint training will take, unless it has already started."""
        joint, heads = self.settings.joint, self.settings.heads
        if joint is None or self.is_done("joint") or any((self.work.folders["joint"] / UNFINISHED).glob("*")):
            return
        self.ensure("scan")
        if self.settings.encoder == SCRATCH:
            self.ensure("features")
        images, device = len(self.inputs.collection), self.run.device
        seconds = estimated_seconds(self.work.encoder, joint, clusters=heads.clusters, images=images, device=device)
        if self.run.processes.first:
            log.info(f"joint training will start after the heads and take about {duration(seconds)}")

    def _warn_of_missing_page(self, error: Exception) -> None:
        text = (
            f"could not write the report ({type(error).__name__}: {error}); the groups are complete. "
            f"Try again with: spice resume {quoted(self.folder.path)}"
        )
        self.failed.append(StepWarning(name=NoPageWarning.__name__, text=text))
        warn_user(text, NoPageWarning)


def _remove_damaged(folder: Path, step: Step) -> None:
    """Delete damaged files of a step, so that it does not take them for finished work when it runs again."""
    record = None
    with suppress(UserError):  # a damaged record says nothing about files
        record = read_record(folder, step.name)
    damaged = [] if record is None else record.damaged(folder)
    rewritten = {made.name for made in step.makes if made.rewritten}
    changed = [str(folder / path) for path in damaged if (folder / path).exists() and path not in rewritten]
    if changed:  # no warning about missing files: someone deleted them on purpose
        warn_user(f"{', '.join(changed[:3])} changed after it was written; recreating it", DamagedFileWarning)
    for path in damaged:
        remove_array(folder / array_name(path))
