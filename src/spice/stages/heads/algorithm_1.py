"""Algorithm 1: train clustering heads by expectation-maximization on prototype pseudo-labels (paper III-B).

`algorithm_1` is the whole algorithm. The feature model does not appear, because it is frozen: the features of all views
are cached, or encoded in every step (see `views`).

Shapes: N images, M of them in a batch, n in a sub-batch, D feature width, K clusters, H heads, P processes.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from spice.core import PseudoLabels
from spice.core.probs import cluster_probs
from spice.data.batches import Batch, batches_of_training
from spice.engine.adam import Adam
from spice.engine.checkpoints import Saved
from spice.engine.run import Run
from spice.models.heads import Head, Heads
from spice.randomness import seeded
from spice.settings import HeadSettings
from spice.stages.heads.diagnostics import HeadDiagnostics, diagnose
from spice.stages.heads.initial_clusters import InitialClusters, clusters_by_kmeans, clusters_from_cut
from spice.stages.heads.inputs import Components, batch_size
from spice.stages.heads.losses import head_losses, label_pairs, label_table
from spice.stages.heads.select import BestHead, HeadSnapshot, better_head, sample_for_comparison, take_snapshot
from spice.stages.view_files import Kind
from spice.stages.views import Views

STATE_FORMAT = 3  # of checkpoints


class TrainedHeads(NamedTuple):
    """The selected head, and the record of the training."""

    head: Head  # the selected one, on the encoder's features
    best: BestHead
    snapshots: tuple[HeadSnapshot, ...]
    sample: slice  # the images whose labels the snapshots keep
    diagnostics: HeadDiagnostics
    heads: Heads  # all heads after the last epoch, on their inputs
    components: Components | None = None  # from features to the heads' inputs; None: the inputs are the features


def algorithm_1(views: Views, settings: HeadSettings, run: Run, cut: Tensor | None = None) -> TrainedHeads:
    """Train the heads for `settings.epochs` epochs and select the best; a stopped run resumes bit for bit."""
    training = _Training(views, settings, run, cut)
    heads, optimizer = training.heads, training.optimizer
    # Another version of the program may have heads with other parameters.
    parameters = [name for name, _ in heads.named_parameters()]
    size = {"images": len(views), "processes": run.processes.count}
    checkpoints = run.checkpoints(settings.model_dump() | size | {"parameters": parameters, "format": STATE_FORMAT})
    done, steps = training.restore_(checkpoints.load()), settings.epochs * training.steps_per_epoch
    for batch in batches_of_training(
        len(views), training.batch, run, stage="heads", epochs=settings.epochs, first=done
    ):
        # E-step: every head labels the whole batch from its current predictions.
        with torch.no_grad():
            images = run.processes.gather(batch.images)  # (M,)
            labels = training.label(batch, images)
        # M-step: every head learns its own labels, from the strong views.
        for logits, targets in training.forward(batch, images, labels):
            losses = head_losses(logits, targets, settings)  # (H,)
            optimizer.zero_grad()
            losses.sum().backward()  # type: ignore[no-untyped-call]  # a sum: no head's step depends on H
            run.processes.average_gradients_(heads.parameters())
            optimizer.step()

        done = batch.number + 1
        if done % training.steps_per_epoch == 0:
            training.end_epoch_(done // training.steps_per_epoch)
        if run.processes.first:
            run.progress("heads", done, steps, {"loss": float(losses.detach().min())})
        checkpoints.save_if_due(done, of=steps, state=training.state)
    return training.result()


class _Training:
    """The state of the training, and its E-step, forward pass and evaluation."""

    def __init__(self, views: Views, settings: HeadSettings, run: Run, cut: Tensor | None) -> None:
        self.views, self.settings, self.run = views, settings, run
        self.batch = batch_size(len(views), settings, run.processes)
        self.steps_per_epoch = len(views) // self.batch
        with seeded(run.seed, "heads", "weights"):
            self.heads = Heads(settings.heads, views.plain.shape[1], settings.clusters, hidden=settings.hidden)
        self.heads.to(run.device)
        run.processes.broadcast_(self.heads)
        self.optimizer = Adam(self.heads.parameters(), learning_rate=settings.learning_rate)
        self.initial: InitialClusters | None = None
        if settings.start == "kmeans":
            self.initial = clusters_by_kmeans(views, settings, run)
        elif settings.start == "cut":
            self.initial = clusters_from_cut(views, settings, run, cut)
        self.snapshots: list[HeadSnapshot] = []
        self.best: BestHead | None = None

    def label(self, batch: Batch, images: Tensor) -> Tensor | PseudoLabels:
        """Every head's pseudo-labels for the whole batch: a table (H, M, K), or pairs if there are sub-batches."""
        bank = self.views.take_bank(images).to(self.run.device)  # (M, D)
        if self.initial is not None and batch.number < self.settings.start_steps:
            probs = self.initial.probs(bank)  # (H, M, K)
        else:
            features = self._features(self.settings.label_view, batch.images, batch.number, "label")
            probs = self.run.processes.gather(cluster_probs(self.heads(features)).movedim(1, 0)).movedim(0, 1)
        return (label_table if self.settings.sub_batch is None else label_pairs)(bank, probs, self.settings)

    def forward(self, batch: Batch, images: Tensor, labels: Tensor | PseudoLabels) -> Iterator[tuple[Tensor, Tensor]]:
        """Logits (H, n, K) and labels (H, n, K) or (H, n), one pair for each optimizer step."""
        for repeat in range(self.settings.repeats):
            if isinstance(labels, PseudoLabels):
                yield from self._sub_batches(images, labels, batch.number, repeat)
            else:
                features = self._features(self.settings.train_view, batch.images, batch.number, f"train {repeat}")
                yield self._logits(features), labels

    def _sub_batches(
        self, images: Tensor, labels: PseudoLabels, step: int, repeat: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The labeled images in random order, split as in the authors' code. An incomplete sub-batch is dropped."""
        processes, count = self.run.processes, labels.image.shape[1]
        size = min(self.settings.sub_batch or count, count)
        size -= size % processes.count
        order = torch.randperm(count, generator=self.run.generator("heads", "sub-batches", step, repeat))
        for start in range(0, count - size + 1, size):
            pairs = order[start : start + size].to(self.run.device)
            own = labels.image[:, pairs[processes.rank :: processes.count]].cpu()  # (H, n / P)
            features = self._features(self.settings.train_view, images[own.flatten()], step, f"train {repeat}")
            yield self._logits(features.view(*own.shape, -1)), labels.cluster[:, pairs]

    def _features(self, kind: Kind, images: Tensor, step: int, purpose: str) -> Tensor:
        """Features (n, D) of a view that is drawn at random for this step."""
        return self.views.draw(kind, images, self.run.generator("heads", "view", purpose, step)).to(self.run.device)

    def _logits(self, features: Tensor) -> Tensor:
        """Logits for the images of all processes, with gradient: (n / P, D) or (H, n / P, D) -> (H, n, K)."""
        own = self.heads(features).movedim(1, 0)
        return self.run.processes.gather_with_gradient(own).movedim(0, 1)

    def end_epoch_(self, epoch: int) -> None:
        """Score every head on all images, and keep the best head so far."""
        if epoch % self.settings.select_every == 0 or epoch == self.settings.epochs:
            self.snapshots.append(take_snapshot(self.heads, self.views, self.settings, epoch=epoch))
            self.best = better_head(self.best, self.heads, self.snapshots[-1], self.settings)

    def result(self) -> TrainedHeads:
        """The selected head and the record of the training."""
        assert self.best is not None
        selected = self.heads.part(slice(0, 1))
        selected.load_state_dict(self.best.parameters)
        return TrainedHeads(
            head=selected.head(0).cpu(),
            best=self.best,
            snapshots=tuple(self.snapshots),
            sample=sample_for_comparison(len(self.views), self.settings),
            diagnostics=diagnose(self.heads, selected, self.views, self.settings),
            heads=self.heads,
        )

    def state(self) -> dict[str, object]:
        """Everything a checkpoint needs to resume the training."""
        return {
            "heads": self.heads.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "snapshots": [tuple(snapshot) for snapshot in self.snapshots],
            "best": None if self.best is None else tuple(self.best),
        }

    def restore_(self, saved: Saved | None) -> int:
        """Continue from a checkpoint, if there is one. Returns the number of finished steps."""
        if saved is None:
            return 0
        self.heads.load_state_dict(saved.state["heads"])
        self.optimizer.load_state_dict(saved.state["optimizer"])
        self.snapshots = [HeadSnapshot(*snapshot) for snapshot in saved.state["snapshots"]]
        self.best = None if saved.state["best"] is None else BestHead(*saved.state["best"])
        return saved.step
