"""The second stage: clustering heads that learn from prototype pseudo-labels (paper III-B, Algorithm 1).

Read it top to bottom: `train_heads` and `_algorithm_1` are the whole of it. The feature model does not appear: its
features of all views are in a file (see `views`), and it has stopped learning.

Shapes: N images, M of them in a batch, D feature width, K clusters, H heads, T = M // K images labeled per cluster.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from spice.core import PseudoLabels, consistency_ratio, prototype_labels, prototype_table
from spice.core.probs import cluster_probs
from spice.core.prototypes import Sizes
from spice.data.batches import Batch, batches
from spice.engine.checkpoints import Checkpoints
from spice.engine.processes import ALONE, Processes
from spice.models.heads import Head, Heads
from spice.neighbors import nearest
from spice.progress import Progress, part_of, silent
from spice.randomness import generator, seeded
from spice.settings import HeadSettings, ReliabilitySettings
from spice.stages.heads.inputs import Components, batch_size, epochs_for, principal_components
from spice.stages.heads.select import Look, Signs, compared, e_step, head_losses, look, signs, warn_of
from spice.stages.heads.starts import kmeans_starts
from spice.stages.reliability import reliability_neighbors
from spice.stages.views import Kind, Views

CPU = torch.device("cpu")
# Groups are not believed to be of even size where the odds that a neighbor shares an image's cluster are so many times
# better in the clusters found without: clusters of even size cut through the large groups, and part neighbors.
BETTER_ODDS = 1.25
# So many heads of each training are asked, and the second most agreement counts: no single head decides, be it lucky or
# one that has given up a cluster. The selected one, which is what would be taken, must not be worse either.
ASKED = 5


class Best(NamedTuple):
    """The head of least score, of all heads after all epochs looked at."""

    epoch: int
    number: int
    loss: float  # over all images
    score: float  # the same, unless compactness counts too
    parameters: dict[str, Tensor]  # of a `Heads` of one


class TrainedHeads(NamedTuple):
    """What the stage leaves behind."""

    head: Head  # the selected one, on the encoder's features
    best: Best
    looks: tuple[Look, ...]
    compared: slice  # the images whose clusters the looks keep
    signs: Signs
    heads: Heads  # all of them after the last epoch, on what heads see of the features
    components: Components | None  # what they see; None: the features


def train_heads(
    views: Views,
    settings: HeadSettings,
    *,
    seed: int,
    folder: Path | None = None,
    device: torch.device = CPU,
    processes: Processes = ALONE,
    progress: Progress = silent,
) -> TrainedHeads:
    """Train `settings.heads` heads on cached views and select one; with a `folder`, a stopped run goes on bit for bit.

    Under several processes each reads its share of every batch, labels are given over the whole batch, and all return
    the same heads.
    """
    batch = batch_size(len(views), settings, processes)
    settings = settings.model_copy(update={"epochs": epochs_for(len(views), batch, settings)})
    components = None
    if settings.components is not None:
        components = principal_components(views.plain, settings.components, seed=seed)
        views = components.of(views)

    def trained(sizes: Sizes, progress: Progress, **changes: int) -> TrainedHeads:
        chosen = settings.model_copy(update={"sizes": sizes, **changes})
        trainer = _Trainer(views, chosen, batch, seed=seed, device=device, processes=processes)
        own = folder / sizes if folder is not None and settings.sizes == "found" else folder
        _algorithm_1(trainer, folder=own, progress=progress)
        return trainer.result(components)

    if settings.sizes != "found":
        found = trained(settings.sizes, progress)
    else:
        # Whether groups are of about even size is not known before they are found. Even sizes mend a poor start, and of
        # many different ones the best is found: so each of those heads starts from a single run of k-means.
        found = trained("nearest", part_of(progress, 0, 2))
        even = trained("even", part_of(progress, 1, 2), start_runs=1)
        found = even if _believed(even, found, views, settings) else found
    warn_of(found.signs, settings)
    return found


def _believed(even: TrainedHeads, found: TrainedHeads, views: Views, settings: HeadSettings) -> bool:
    """Whether clusters of even size are the better answer than those found without, by what can be seen of both."""
    if len(found.signs.empty) > len(even.signs.empty):
        return True
    bank = views.compared(found.compared)  # (n, D)
    near = nearest(bank, reliability_neighbors(len(bank), found.head.clusters, ReliabilitySettings())).index  # (n, S)
    in_even, in_found = _neighbors_agree(even, near, settings), _neighbors_agree(found, near, settings)
    # odds(in_found) <= BETTER_ODDS * odds(in_even), without dividing by zero where all agree
    little = in_found.second * (1 - in_even.second) <= BETTER_ODDS * in_even.second * (1 - in_found.second)
    return little or in_found.selected < in_even.selected


class _Agreement(NamedTuple):
    """How far neighbors share a cluster, in the head that was selected, and the second most in the best heads."""

    selected: float
    second: float


def _neighbors_agree(trained: TrainedHeads, near: Tensor, settings: HeadSettings) -> _Agreement:
    seen = next(one for one in trained.looks if one.epoch == trained.best.epoch)
    best = seen.score(settings).argsort(stable=True)[:ASKED]  # the selected one first
    agreement = [consistency_ratio(labels.long(), near).mean().item() for labels in seen.labels[best]]
    return _Agreement(agreement[0], sorted(agreement, reverse=True)[:2][-1])


def _algorithm_1(trainer: "_Trainer", *, folder: Path | None, progress: Progress) -> None:
    settings, processes = trainer.settings, trainer.processes
    checkpoints = Checkpoints(folder, identity=trainer.identity)
    start = trainer.restore_(checkpoints)
    per_epoch = len(trainer.views) // trainer.batch
    for step, part in trainer.steps(start):
        # E-step: every head labels the batch from what it now predicts.
        with torch.no_grad():
            images = trainer.whole(part.images)  # (M,)
            labels = trainer.label(part, images, step)
        # M-step: every head learns its own labels, from the strong views.
        for logits, some in trainer.learned(part, images, labels, step):
            losses = head_losses(logits, some, settings)  # (H,)
            trainer.optimizer.zero_grad(set_to_none=True)
            losses.sum().backward()  # type: ignore[no-untyped-call]  # a sum: no head's step depends on H
            processes.average_gradients_(trainer.heads.parameters())
            trainer.optimizer.step()

        done = step + 1
        if done % per_epoch == 0:
            trainer.look_(done // per_epoch)
        if processes.first:
            progress("heads", done, settings.epochs * per_epoch, {"loss": float(losses.detach().min())})
            if checkpoints.due() or done == settings.epochs * per_epoch:
                checkpoints.save(done, trainer.state())


class _Trainer:
    """The heads, what they have been through, and how a batch reaches them."""

    def __init__(
        self,
        views: Views,
        settings: HeadSettings,
        batch: int,
        *,
        seed: int,
        device: torch.device,
        processes: Processes,
    ) -> None:
        self.views, self.settings, self.batch = views, settings, batch
        self.seed, self.device, self.processes = seed, device, processes
        with seeded(seed, "heads", "weights"):
            self.heads = Heads(settings.heads, views.plain.shape[1], settings.clusters, hidden=settings.hidden)
        self.heads.to(device)
        processes.broadcast_(self.heads)
        self.optimizer = torch.optim.Adam(self.heads.parameters(), lr=settings.learning_rate, fused=True)
        self.start = kmeans_starts(views, settings, seed=seed, device=device) if settings.start == "kmeans" else None
        self.looks: list[Look] = []
        self.best: Best | None = None

    @property
    def identity(self) -> dict[str, object]:
        """What a checkpoint must agree with."""
        more = {"seed": self.seed, "images": len(self.views), "processes": self.processes.count}
        names = [name for name, _ in self.heads.named_parameters()]  # a program of another version may have others
        return self.settings.model_dump() | more | {"parameters": names}

    def steps(self, start: int) -> Iterator[tuple[int, Batch]]:
        """Step number, and this process's part of its batch, from step `start` on."""
        per_epoch = len(self.views) // self.batch
        for epoch in range(start // per_epoch, self.settings.epochs):
            order = batches(
                len(self.views),
                self.batch,
                seed=self.seed,
                stage="heads",
                epoch=epoch,
                rank=self.processes.rank,
                processes=self.processes.count,
            )
            for part in order:
                step = epoch * per_epoch + part.number
                if step >= start:
                    yield step, part

    def label(self, part: Batch, images: Tensor, step: int) -> Tensor | PseudoLabels:
        """The pseudo-labels that every head gives to the whole batch: a table (H, M, K), or pairs for sub-batches."""
        bank = self.views.compared(images).to(self.device)  # (M, D)
        if self.start is not None and step < self.settings.start_steps:
            probs = self.start.probs(bank)  # (H, M, K)
        else:
            features = self._features(self.settings.label_view, part.images, step, "label")
            probs = self.whole(cluster_probs(self.heads(features)), dim=1)
        as_asked = prototype_table if self.settings.sub_batch is None else prototype_labels
        return as_asked(bank, probs, **e_step(self.settings))

    def learned(
        self, part: Batch, images: Tensor, labels: Tensor | PseudoLabels, step: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Logits (H, n, K) and labels (H, n, K) or (H, n) to learn from, a step of the optimizer for each."""
        for repeat in range(self.settings.repeats):
            if isinstance(labels, PseudoLabels):
                yield from self._sub_batches(images, labels, step, repeat)
            else:
                features = self._features(self.settings.train_view, part.images, step, f"train {repeat}")
                yield self.whole(self.heads(features), dim=1, gradient=True), labels

    def _sub_batches(
        self, images: Tensor, labels: PseudoLabels, step: int, repeat: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The labeled images in random order and small parts, as in the authors' code (whole parts only)."""
        count = labels.image.shape[1]
        size = min(self.settings.sub_batch or count, count)
        size -= size % self.processes.count
        order = torch.randperm(count, generator=generator(self.seed, "heads", "sub-batches", step, repeat))
        for start in range(0, count - size + 1, size):
            pairs = order[start : start + size].to(self.device)
            own = labels.image[:, pairs[self.processes.rank :: self.processes.count]].cpu()  # (H, n / P)
            features = self._features(self.settings.train_view, images[own.flatten()], step, f"train {repeat}")
            logits = self.heads(features.view(*own.shape, -1))  # (H, n / P, K)
            yield self.whole(logits, dim=1, gradient=True), labels.cluster[:, pairs]

    def _features(self, kind: Kind, images: Tensor, step: int, purpose: str) -> Tensor:
        """Features (n, D) of a view drawn at random for this step."""
        drawn = generator(self.seed, "heads", "view", purpose, step)
        view = int(torch.randint(self.views.count(kind), (), generator=drawn))
        return self.views.take(kind, view, images).to(self.device)

    def whole(self, part: Tensor, *, dim: int = 0, gradient: bool = False) -> Tensor:
        """The whole batch from every process's part of it, along `dim`."""
        first = part.movedim(dim, 0)
        gathered = self.processes.gather_with_gradient(first) if gradient else self.processes.gather(first)
        return gathered.movedim(0, dim)

    def look_(self, epoch: int) -> None:
        """See every head's loss over all images, and keep the best head so far."""
        if epoch % self.settings.select_every and epoch != self.settings.epochs:
            return
        seen = look(self.heads, self.views, self.settings, epoch=epoch)
        self.looks.append(seen)
        scores = seen.score(self.settings)
        number = int(scores.argmin())
        if self.best is None or float(scores[number]) < self.best.score:
            one = self.heads.part(slice(number, number + 1))
            score, loss = float(scores[number]), float(seen.loss[number])
            self.best = Best(epoch, number, loss, score, dict(one.state_dict()))

    def result(self, components: Components | None) -> TrainedHeads:
        """The selected head, written as one on the encoder's features, and all that was seen on the way."""
        assert self.best is not None
        selected = self.heads.part(slice(0, 1))
        selected.load_state_dict(self.best.parameters)
        seen = signs(self.heads, selected, self.views, self.settings)
        head = selected.head(0).cpu()
        whole = head if components is None else components.on_features(head)
        images = compared(len(self.views), self.settings)
        return TrainedHeads(whole, self.best, tuple(self.looks), images, seen, self.heads, components)

    def state(self) -> dict[str, object]:
        """All that the rest of the training depends on."""
        return {
            "heads": self.heads.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "looks": [tuple(seen) for seen in self.looks],
            "best": None if self.best is None else tuple(self.best),
        }

    def restore_(self, checkpoints: Checkpoints) -> int:
        """Take up the last checkpoint, if there is one: the number of steps that are done."""
        saved = checkpoints.load()
        if saved is None:
            return 0
        self.heads.load_state_dict(saved.state["heads"])
        self.optimizer.load_state_dict(saved.state["optimizer"])
        self.looks = [Look(*seen) for seen in saved.state["looks"]]
        self.best = None if saved.state["best"] is None else Best(*saved.state["best"])
        return saved.step
