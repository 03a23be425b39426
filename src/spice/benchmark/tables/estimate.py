"""Estimates the running time of a table: times a few steps of every training on synthetic images.

Batches grow from a few images to their full size as long as a step is affordable. Otherwise, as for the paper's
networks on a CPU, the time is extrapolated from the largest batch that was timed. For a GPU, which is more efficient
with full batches, this is an upper bound. A machine without a GPU can check in this way that all of `--size full` runs.

On a CPU, seconds are processor seconds, as in the tables.

Shapes: N images, M in a batch of heads, D feature width, K clusters, V views.
"""

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from spice.benchmark.choice import LARGER, SEEDS, Choice, choices
from spice.benchmark.datasets import card_of
from spice.benchmark.deep.objective import Epoch, Objective, Pictures, Schedule, Start, train
from spice.benchmark.methods.autoencoders import DEC, Autoencoder, StackedAutoencoder, pictures_of, trained
from spice.benchmark.methods.deep import OBJECTIVES, TUNED, schedule
from spice.benchmark.methods.joint_heads import train_joint_heads
from spice.benchmark.methods.spice import VARIANTS
from spice.benchmark.semi import ALGORITHMS, labeled_card, with_linear_head
from spice.benchmark.tables.catalog import SizeName, Table
from spice.data.images import InMemory
from spice.engine.device import choose_device, module_to_device
from spice.engine.processes import CPU
from spice.engine.run import Run
from spice.errors import SpiceWarning
from spice.models.encoders import SCRATCH, Encoder, TorchEncoder, load_encoder
from spice.models.heads import Head
from spice.models.weights import NetworkCard
from spice.progress import duration
from spice.settings import HeadSettings, JointSettings
from spice.stages.features.train import network_card, train_features
from spice.stages.heads.train import train_heads
from spice.stages.joint.algorithms import find_algorithm
from spice.stages.joint.refine import networks_to_train
from spice.stages.joint.sampling import Labeled
from spice.stages.joint.train import Learner, train_jointly
from spice.stages.views import Views, with_fresh_views

FEW = 8  # images in the first batch
GROWTH = 4  # each further batch is this many times as large
AFFORDABLE = 0.5  # seconds that a step may take
STEPS = 3  # of each batch size; the first is slow and not counted
VIEWS_AT_ONCE = 64
# The methods that train each autoencoder.
AUTOENCODERS = {Autoencoder: ("AE", "VAE"), StackedAutoencoder: ("SDAE", "DEC")}
JOINT_HEADS = ("Joint-SH", "Joint-MH")
FEATURE_PARTS = ("stage 1", "views")  # run once if a table has one feature model for all seeds


class Count(NamedTuple):
    """The number of images to learn from."""

    clustered: int  # in all stages
    extra: int  # in stages 1 and 3 only, as for STL-10; they do not change the number of steps in stage 3


class Cost(NamedTuple):
    """The time of a step or an image."""

    seconds: float
    extrapolated: bool  # from a smaller batch


class Part(NamedTuple):
    """A piece of work that one or more methods need."""

    name: str
    amount: float  # steps or images
    each: Cost

    @property
    def seconds(self) -> float:
        return self.amount * self.each.seconds


def estimate(table: Table, size: SizeName, *, device: str = "auto") -> str:
    """A report on the time of each part of the table on this machine, for one seed and for all."""
    place = choose_device(device)
    lines = [f"{table.title}, size {size}: measured on {place.type}, {torch.get_num_threads()} thread(s)"]
    total, shared, seeds = 0.0, 0.0, len(SEEDS[size])  # `shared` by all seeds
    for choice in choices(table, size):
        images = _count(choice, table)
        extra = f" and {images.extra:,} without labels, in stages 1 and 3" if images.extra else ""
        lines.append(f"{card_of(choice.dataset).title}, {images.clustered:,} images{extra}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SpiceWarning)  # about the clusters of synthetic images
            found = list(parts(choice, table, device=place))
        total += sum(part.seconds for part in found)
        if choice.one_encoder:
            shared += sum(part.seconds for part in found if part.name.startswith(FEATURE_PARTS))
        lines += map(_line, found)
    lines.append(f"one seed   {duration(total)}, {seeds} seeds {duration(seeds * (total - shared) + shared)}")
    if any(line.endswith("~") for line in lines):
        lines.append("~ extrapolated from smaller batches")
    return "\n".join(lines)


def _line(part: Part) -> str:
    each, mark = f"{part.each.seconds * 1000:,.2f} ms", " ~" * part.each.extrapolated
    return f"  {part.name:<44}{part.amount:>16,.0f} x {each:>14} = {duration(part.seconds):>14}{mark}"


def parts(
    choice: Choice, table: Table, *, few: int = FEW, affordable: float = AFFORDABLE, device: torch.device = CPU
) -> Iterator[Part]:
    """Time every kind of work that the table's methods do on this data set.

    Args:
        few: images in the first batch.
        affordable: seconds that a step of a larger batch may take.
    """
    methods = [method for method in table.methods if method not in (*choice.left_out, LARGER)]
    trial = Trial(choice, _count(choice, table), few, affordable, device)
    if choice.larger is not None and LARGER in table.methods:
        larger = replace(table, methods=("SPICE",))
        row = parts(choice.of_row(LARGER), larger, few=few, affordable=affordable, device=device)
        yield from (part._replace(name=f"{part.name} ({LARGER})") for part in row)
    for autoencoder, users in AUTOENCODERS.items():
        if count := len(set(users) & set(methods)):
            yield trial.autoencoder(autoencoder, count)
    if "DEC" in methods:
        yield trial.dec()
    yield from trial.features()
    for settings, runs in stage_2_runs(choice, methods).items():
        yield from trial.heads(settings, runs)
    if runs := len({"SPICE", "After"} & set(methods)) + ("SPICE on all labels" in methods):
        yield trial.joint(runs)
    for kind in dict.fromkeys(kind for method in methods for kind in OBJECTIVES.get(method, ())):
        yield trial.rival(kind)
    yield from (trial.joint_heads(method) for method in methods if method in JOINT_HEADS)
    yield from (trial.labeled(method) for method in methods if method in ALGORITHMS)


def stage_2_runs(choice: Choice, methods: Sequence[str]) -> Counter[HeadSettings]:
    """How often stage 2 is trained with each of its two settings, `heads` and `paper_heads`.

    Methods with the same settings share the result. Variants of the paper's heads take as long as these.
    """
    timed: dict[HeadSettings, HeadSettings] = {}  # distinct settings -> settings that are timed for them
    for method in methods:
        if method in ("SPICE-s", "SPICE", "SPICE on all labels", "Before", "After"):
            timed[choice.heads] = choice.heads
        elif method == "SPICE-s of the paper" or method in VARIANTS:
            timed[choice.paper_heads.model_copy(update=VARIANTS.get(method, {}))] = choice.paper_heads
    return Counter(timed.values())


class Trial:
    """Times a few steps of every training, for one data set."""

    def __init__(self, choice: Choice, count: Count, few: int, affordable: float, device: torch.device) -> None:
        self.choice, self.few, self.affordable, self.device = choice, few, affordable, device
        self.images, self.extra = count
        self.card = network_card(self._synthetic(1), choice.features)
        self.encoder: Encoder  # of stage 2
        if choice.encoder == SCRATCH:
            network, about = self.card.build(), self.card.normalization
            self.encoder = TorchEncoder(SCRATCH, network, about, size=self.card.size, device=device)
        else:
            self.encoder = load_encoder(choice.encoder, size=choice.pixels, device=device, download=True)
            self.card = NetworkCard(
                network=choice.encoder, size=self.encoder.size, normalization=self.encoder.normalization
            )

    def autoencoder(self, kind: type[Autoencoder], methods: int) -> Part:
        settings, batch = self.choice.autoencoder, self._batch(self.choice.autoencoder.batch)

        def learn(images: int, run: Run) -> None:
            shorter = settings.model_copy(update={"batch": images, "epochs": STEPS})
            trained(kind, pictures_of(self._synthetic(images), settings), shorter, run)

        # Of the stacked autoencoder, each layer is trained, then all together for twice as long.
        trainings = methods * (len(settings.layers) + 2 if kind is StackedAutoencoder else 1)
        steps = trainings * settings.epochs * (self.images // batch)
        return Part(f"{kind.__name__}, steps", steps, self.step(batch, learn))

    def dec(self) -> Part:
        settings, batch = self.choice.autoencoder, self._batch(self.choice.autoencoder.batch)

        def learn(images: int, run: Run) -> None:
            synthetic = self._synthetic(images)
            centers = torch.randn(self.choice.clusters, settings.layers[-1])
            objective = _EndlessDEC(StackedAutoencoder(settings, channels=synthetic.channels).encode, centers, images)
            train(objective, pictures_of(synthetic, settings), Schedule(STEPS, images, 1e-4), run)

        return Part("DEC, steps", settings.refining_epochs * (self.images // batch), self.step(batch, learn))

    def features(self) -> Iterator[Part]:
        settings = self.choice.features
        if self.choice.encoder == SCRATCH:
            steps = settings.epochs * ((self.images + self.extra) // settings.batch)
            small = round(settings.early * steps) if settings.early_view_size else 0
            for name, count, early in (("stage 1, small views", small, 1.0), ("stage 1", steps - small, 0.0)):
                if count:
                    yield Part(f"{name}, steps", count, self.step(settings.batch, self._pretext(early)))
        views = 1 + self.choice.views.weak + self.choice.views.strong
        yield Part("views, images", self.images * views, self._view())

    def heads(self, settings: HeadSettings, runs: int) -> Iterator[Part]:
        batch = self._batch(settings.batch)
        features = np.random.default_rng(0).normal(size=(batch, self.encoder.features)).astype(np.float32)
        views = Views(features, features[None], features[None])
        few = settings.model_copy(update={"epochs": STEPS, "least_steps": 1, "select_every": 10 * STEPS})
        clock = _Clock(self.device)
        train_heads(views, few, Run(device=self.device, progress=clock))
        steps = max(settings.epochs * (self.images // batch), settings.least_steps)
        many = f" ({runs} runs)" * (runs > 1)
        yield Part(f"stage 2, steps{many}", runs * steps, Cost(clock.pace, extrapolated=False))
        if self.choice.views.fresh:  # one to label, one to learn
            yield Part(f"stage 2, new views{many}", 2 * runs * steps * batch, self._view())

    def joint(self, runs: int) -> Part:
        settings, head = self.choice.joint, Head(self.encoder.features, self.choice.clusters)

        def learner() -> Learner:
            return networks_to_train(self.encoder, head, settings, Run(device=self.device)).learner

        many = f" ({runs} runs)" * (runs > 1)
        return Part(f"stage 3, steps{many}", runs * settings.steps, self._joint_step(settings, learner))

    def rival(self, kind: type[Objective]) -> Part:
        chosen = schedule(kind, self.choice)
        batch = self._batch(chosen.batch)

        def learn(images: int, run: Run) -> None:
            backbone = self.card.build()
            # IDFD compares with all images; the tuned rivals need features of the images of the batch.
            features = torch.randn(images, backbone.features) if kind in TUNED else torch.empty(self.images, 0)
            objective = kind.of(Start(backbone, self.choice.clusters, features, seed=0))
            augment = self.choice.joint.augment
            shown = Pictures(self._synthetic(images), augment, self.card.size, self.card.normalization)
            train(objective, shown, chosen._replace(batch=images, epochs=STEPS), run)

        return Part(f"{kind.__name__}, steps", chosen.epochs * (self.images // batch), self.step(batch, learn))

    def joint_heads(self, name: str) -> Part:
        chosen, clusters = self.choice.joint_heads, self.choice.clusters
        batch = self._batch(self.choice.paper_heads.batch)
        changes = {"heads": 1 if name == "Joint-SH" else chosen.heads, "least_steps": 1, "components": None}

        def learn(images: int, run: Run) -> None:
            few = self.choice.paper_heads.model_copy(update=changes | {"epochs": STEPS, "batch": images})
            learner = Learner.on_images(
                self.card.build(),
                clusters,
                self.choice.views.augment,
                size=self.card.size,
                normalization=self.card.normalization,
            )
            train_joint_heads(learner, self._synthetic(images), torch.randn(images, self.encoder.features), few, run)

        cost = self.step(batch, learn, least=2 * clusters)  # the fewest that stage 2 takes
        return Part(f"{name}, steps", chosen.epochs * (self.images // batch), cost)

    def labeled(self, name: str) -> Part:
        semi, algorithm = self.choice.semi, ALGORITHMS[name]
        steps = semi.supervised_steps if name == "supervised" else semi.training.steps
        settings = semi.training.model_copy(update={"algorithm": algorithm})
        card = labeled_card(self.choice, self._synthetic(1)) if self.choice.encoder == SCRATCH else self.card

        def learner() -> Learner:
            network = module_to_device(with_linear_head(card.build(), self.choice.clusters, algorithm), self.device)
            return Learner.on_images(
                network, self.choice.clusters, settings.augment, size=card.size, normalization=card.normalization
            )

        return Part(f"{name}, steps", steps, self._joint_step(settings, learner))

    def _synthetic(self, images: int) -> InMemory:
        channels = 1 if self.choice.dataset in ("mnist", "fashion-mnist", "digits") else 3
        shape = (images, channels, self.choice.pixels, self.choice.pixels)
        return InMemory(torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(0)).byte())

    def _batch(self, wanted: int | None) -> int:
        """The batch size, at most all images."""
        return min(wanted or self.images, self.images)

    def step(self, batch: int, learn: Callable[[int, Run], None], *, least: int = 2) -> Cost:
        """The time of a step of `batch` images. `learn(images, run)` takes `STEPS` steps of that many images."""
        tried = min(batch, max(self.few, least))
        while True:
            clock = _Clock(self.device)
            learn(tried, Run(device=self.device, progress=clock))
            larger = min(batch, GROWTH * tried)
            if tried == batch or clock.pace * larger / tried > self.affordable:
                return Cost(clock.pace * batch / tried, extrapolated=tried < batch)
            tried = larger

    def _pretext(self, early: float) -> Callable[[int, Run], None]:
        """Stage 1 with this share of its steps on small views."""
        changes = {"early": early, "epochs": STEPS, "queue": None, "warmup": 0.0}

        def learn(images: int, run: Run) -> None:
            train_features(
                self._synthetic(images), self.choice.features.model_copy(update=changes | {"batch": images}), run
            )

        return learn

    def _view(self) -> Cost:
        """The time to make and encode one view of an image."""

        def learn(images: int, run: Run) -> None:
            none = np.empty((images, 0), dtype=np.float32)
            made = Views(none, none[None], none[None])
            views = with_fresh_views(made, self._synthetic(images), self.encoder, self.choice.views)
            for step in range(STEPS):
                views.draw("strong", torch.arange(images), torch.Generator())
                run.progress("views", step + 1, STEPS)

        cost = self.step(VIEWS_AT_ONCE, learn)
        return cost._replace(seconds=cost.seconds / VIEWS_AT_ONCE)

    def _joint_step(self, settings: JointSettings, learner: Callable[[], Learner]) -> Cost:
        """The time of a step in the training loop of stage 3."""
        views = settings.labeled + len(find_algorithm(settings.algorithm).views) * settings.unlabeled

        def learn(shown: int, run: Run) -> None:
            labeled, unlabeled = (
                max(2, round(part * shown / views)) for part in (settings.labeled, settings.unlabeled)
            )
            few = settings.model_copy(update={"labeled": labeled, "unlabeled": unlabeled, "steps": STEPS})
            images = torch.arange(labeled + unlabeled)
            train_jointly(
                learner(), self._synthetic(len(images)), Labeled(images, images % self.choice.clusters), few, run
            )

        return self.step(views, learn)


class _EndlessDEC(DEC):
    """DEC without its stopping rule."""

    def begin_(self, epoch: Epoch, pictures: Pictures, device: torch.device) -> bool:
        super().begin_(epoch, pictures, device)
        return True


class _Clock:
    """A progress callback that times steps, except the slow first one of each training."""

    def __init__(self, device: torch.device) -> None:
        self.now = time.process_time if device.type == "cpu" else time.monotonic
        self.before, self.times = 0.0, list[float]()

    def __call__(self, task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        now = self.now()
        if done > 1:
            self.times.append(now - self.before)
        self.before = now

    @property
    def pace(self) -> float:
        """Seconds per step."""
        return sum(self.times) / len(self.times)


def _count(choice: Choice, table: Table) -> Count:
    published = card_of(choice.dataset).counts
    train, test = choice.train or published.train, choice.test or published.test
    return Count(train + test if table.which == "whole" else train, published.unlabeled)
