"""What a method of a table works with: images, seed, and the stages of SPICE, each computed once and cached.

The stages are those of the pipeline: SPICE in a table is what `spice cluster` and `spice refine` compute.

Shapes: N images to learn from, A images to score, D feature width, K clusters.
"""

import time
import warnings
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from spice.benchmark.choice import Choice
from spice.benchmark.collected import Collected
from spice.data.images import Images
from spice.engine.run import Run
from spice.errors import SpiceWarning
from spice.models.encoders import SCRATCH, Encoder, load_encoder
from spice.models.heads import Head
from spice.pipeline.execute import Execution
from spice.pipeline.steps.joint import stage_2_result, training_labels
from spice.pipeline.work import Answer, Inputs
from spice.runs import RunFolder, key_of
from spice.runs.folder import create
from spice.runs.records import JointResult
from spice.settings import HeadSettings, JointSettings, RunSettings
from spice.stages.encode import encode_plain
from spice.stages.joint.sampling import Labeled

# Steps that all methods share. Their time counts for no method.
SHARED = ("scan", "features", "encode", "views", "neighbors")


class Workbench:
    """One data set with one seed. Holds no true labels."""

    def __init__(self, images: Collected, choice: Choice, run: Run) -> None:
        self.learn, self.scored, self.extra = images.learn, images.scored, images.extra
        self.choice, self.clusters, self.run = choice, choice.clusters, run
        assert run.folder is not None, "stages write their results to files"
        create(run.folder)
        self.folder = RunFolder.open_or_create(run.folder, source=None)
        self.charged: dict[str, float] = {}  # processor seconds that count for the method, by step key
        self.spent_here = 0.0  # processor seconds in this process of work that is charged, or shared by all methods
        self.notes: list[str] = []  # saved with the cell

    @property
    def split(self) -> bool:
        return self.scored is not self.learn

    @property
    def all_images(self) -> Images:
        """The images for stages 1 and 3, with the unlabeled images of STL-10."""
        return self._stage_2.work.learned_images

    def place(self, name: str, *depends: object) -> Run:
        """The run for a method's own training, in a folder whose name has a hash of all that the result depends on."""
        assert self.run.folder is not None
        key = key_of(name, self.learn.collection.identity, self.learn.size, [str(part) for part in depends])
        return self.run.with_folder(self.run.folder / "methods" / f"{name}-{self.run.seed}-{key}")

    @cached_property
    def encoder(self) -> Encoder:
        """The feature model: trained on these images (III-A), or a pretrained encoder."""
        if self.choice.encoder == SCRATCH:
            self._ensure(self._stage_2, "features")
        return self._stage_2.work.encoder

    @cached_property
    def features(self) -> Tensor:
        """Features of the images to learn from, (N, D)."""
        self._ensure(self._stage_2, "encode")
        return torch.clone(self._stage_2.work.features)

    @cached_property
    def scored_features(self) -> Tensor:
        """Features of the images to score, (A, D)."""
        if not self.split:
            return self.features
        encoder, started = self.encoder, time.process_time()
        features = encode_plain(encoder, self.scored)
        self.spent_here += time.process_time() - started
        return features

    def head(self, settings: HeadSettings) -> Head:
        """The selected head of stage 2 (III-B)."""
        execution = self._execution(settings)
        self._ensure(execution, "heads")
        return execution.work.head

    def reliable(self) -> Labeled:
        """The reliable labels, which stage 3 learns (III-C)."""
        for step in ("neighbors", "heads"):
            self._ensure(self._stage_2, step)
        work = self._stage_2.work
        return training_labels(work, stage_2_result(work), self.run)

    def refined(self, *, all_labels: bool = False) -> Answer | None:
        """Encoder and head after joint training (III-C); None if the result of stage 2 was kept.

        Args:
            all_labels: learn every label of stage 2, not only the reliable ones (the paper's comparison).
        """
        execution = self._execution(self.choice.heads, self.choice.joint, all_labels=all_labels)
        for step in ("heads", "joint"):
            self._ensure(execution, step)
        record = execution.ensure("joint")
        assert isinstance(record.result, JointResult)
        if record.result.failed_checks:
            kept = "joint training" if record.result.used else "stage 2"
            self.notes.append(f"checks failed, {kept} was kept: {'; '.join(record.result.failed_checks)}")
        return execution.work.answer if record.result.used else None

    @cached_property
    def _stage_2(self) -> Execution:
        return self._execution(self.choice.heads)

    def _execution(
        self, heads: HeadSettings, joint: JointSettings | None = None, *, all_labels: bool = False
    ) -> Execution:
        choice = self.choice
        rule = {"rule": "all"} if all_labels else {}
        settings = RunSettings(
            encoder=choice.encoder,
            size=choice.pixels,
            features=choice.features if choice.encoder == SCRATCH else None,
            features_seed=0 if choice.one_encoder else None,
            views=choice.views,
            heads=heads,
            reliability=choice.reliability.model_copy(update=rule),
            joint=joint,
            seed=self.run.seed,
        )
        inputs = Inputs(self.learn.collection, self.learn, extra=self.extra)
        return Execution(self.folder, settings, inputs, self._frozen, replace(self.run, folder=None), page=False)

    @cached_property
    def _frozen(self) -> Encoder | None:
        if self.choice.encoder == SCRATCH:
            return None
        return load_encoder(self.choice.encoder, size=self.choice.pixels, device=self.run.device, download=True)

    def _ensure(self, execution: Execution, step: str) -> None:
        """Run a step if it is not finished. Its time counts for the method, even if another method ran it."""
        before = execution.cpu_seconds
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SpiceWarning)  # the reader of a table sees the scores
            record = execution.ensure(step)
        self.spent_here += execution.cpu_seconds - before
        if step not in SHARED:
            self.charged[execution.plan.keys[step]] = record.cpu_seconds
