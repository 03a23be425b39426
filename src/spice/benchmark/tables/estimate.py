"""What a table would take: a few steps of every configuration on made-up images, times the steps it has.

Batches are small, so that the paper's networks fit anywhere; time is counted by the image. A GPU is used better by full
batches, so that there the figure is an upper bound; so it is for joint training that leaves the first layers as they
are, since all of them are timed. It is also how a machine without a GPU checks that every configuration of `--size
full` runs.

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
from spice.benchmark.deep.objective import Objective, Pictures, Start, train
from spice.benchmark.methods.autoencoders import Autoencoder, StackedAutoencoder, fit_dec
from spice.benchmark.methods.autoencoders import fit as fit_autoencoder
from spice.benchmark.methods.deep import OBJECTIVES, schedule
from spice.benchmark.methods.joint_heads import train_joint_heads
from spice.benchmark.methods.spice import VARIANTS
from spice.benchmark.semi import ALGORITHMS, with_linear_head
from spice.benchmark.semi import network_card as labeled_card
from spice.benchmark.tables.catalog import SizeName, Table
from spice.data.images import InMemory
from spice.engine.device import choose_device, module_to_device
from spice.engine.processes import CPU
from spice.engine.run import Run
from spice.errors import SpiceWarning
from spice.models.encoders import SCRATCH, Encoder, TorchEncoder, load_encoder
from spice.models.weights import NetworkCard
from spice.progress import Progress, duration
from spice.settings import AugmentSettings, HeadSettings, JointSettings
from spice.stages.features.train import card_of as network_card
from spice.stages.features.train import train_features
from spice.stages.heads.train import train_heads
from spice.stages.joint.algorithms import find_algorithm
from spice.stages.joint.draws import Labeled
from spice.stages.joint.train import Learner, train_jointly
from spice.stages.views import Views, with_fresh_views

STEPS = 2  # the first, which is slow, and one to time
# Each autoencoder, and the methods that train one.
AUTOENCODERS = {Autoencoder: ("AE", "VAE"), StackedAutoencoder: ("SDAE", "DEC")}
JOINT_HEADS = ("Joint-SH", "Joint-MH")
FEATURE_PARTS = ("stage 1", "views")  # of one seed alone where a table has one feature model for all seeds


class Count(NamedTuple):
    """The images of a data set that are learned from."""

    clustered: int  # in all stages
    extra: int  # in stages 1 and 3 only, as those of STL-10; stage 3 has as many steps with them as without


class Part(NamedTuple):
    """A piece of work that one or more methods need."""

    name: str
    amount: float  # images that go through it, or steps
    seconds: float  # for each of them, measured here


def estimate(table: Table, size: SizeName, *, batch: int = 8, device: str = "auto") -> str:
    """In words: what each part of the table takes on this machine, for one seed and for all."""
    place = choose_device(device)
    lines = [f"{table.title}, size {size}: measured on {place.type}, {torch.get_num_threads()} thread(s)"]
    total, shared, seeds = 0.0, 0.0, len(SEEDS[size])  # `shared`: what all seeds have in common
    for choice in choices(table, size):
        images = _count(choice, table)
        extra = f" and {images.extra:,} without labels, in stages 1 and 3" if images.extra else ""
        lines.append(f"{card_of(choice.dataset).title}, {images.clustered:,} images{extra}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SpiceWarning)  # about groups of made-up images
            found = list(parts(choice, table, batch=batch, device=place))
        for name, amount, seconds in found:
            total += amount * seconds
            shared += amount * seconds if choice.one_encoder and name.startswith(FEATURE_PARTS) else 0.0
            cost = duration(amount * seconds)
            lines.append(f"  {name:<44}{amount:>16,.0f} x {seconds * 1000:>9.2f} ms = {cost:>14}")
    sums = f"{duration(total)}, {seeds} seeds {duration(seeds * (total - shared) + shared)}"
    return "\n".join([*lines, f"one seed   {sums}, as measured with small batches"])


def parts(choice: Choice, table: Table, *, batch: int, device: torch.device = CPU) -> Iterator[Part]:
    """Every kind of work that the table's methods do with this data set, each tried out."""
    methods = [method for method in table.methods if method not in (*choice.left_out, LARGER)]
    if choice.larger is not None and LARGER in table.methods:
        row = parts(choice.of_row(LARGER), replace(table, methods=("SPICE",)), batch=batch, device=device)
        yield from (part._replace(name=f"{part.name} ({LARGER})") for part in row)
    trial = _Trial(choice, _count(choice, table), batch, device)
    for autoencoder, users in AUTOENCODERS.items():
        if count := len(set(users) & set(methods)):
            yield trial.autoencoder(autoencoder, count)
    if "DEC" in methods:
        yield trial.dec()
    yield from trial.features()
    for settings, runs in stage_2_runs(choice, methods).items():
        yield from trial.heads(settings, runs)
    if trained := len({"SPICE", "After"} & set(methods)) + ("SPICE on all labels" in methods):
        once = trial.joint()
        yield once._replace(amount=trained * once.amount)
    for kind in dict.fromkeys(kind for method in methods for kind in OBJECTIVES.get(method, ())):
        yield trial.rival(kind)
    yield from (trial.joint_heads(method) for method in methods if method in JOINT_HEADS)
    yield from (trial.labeled(method) for method in methods if method in ALGORITHMS)


def stage_2_runs(choice: Choice, methods: Sequence[str]) -> Counter[HeadSettings]:
    """How often stage 2 is trained with each of the choice's two settings for it.

    Methods with the same settings share the result; a variant of the paper's heads takes as long as they do.
    """
    wanted: dict[HeadSettings, HeadSettings] = {}  # all settings that differ, and those to be timed for them
    for method in methods:
        if method in ("SPICE-s", "SPICE", "SPICE on all labels", "Before", "After"):
            wanted[choice.heads] = choice.heads
        elif method == "SPICE-s of the paper" or method in VARIANTS:
            wanted[choice.paper_heads.model_copy(update=VARIANTS.get(method, {}))] = choice.paper_heads
    return Counter(wanted.values())


class _Trial:
    """A few steps of everything, for one data set."""

    def __init__(self, choice: Choice, count: Count, batch: int, device: torch.device) -> None:
        self.choice, self.batch, self.device = choice, batch, device
        self.images, self.extra = count
        self.made = self._made(batch)
        self.card = network_card(self.made, choice.features)
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
        settings = self.choice.autoencoder
        few = settings.model_copy(update={"batch": self.batch, "epochs": STEPS})
        each = _pace(lambda seen: fit_autoencoder(kind, self.made, 2, few, Run(0, None, self.device, progress=seen)))
        # Each of the stacked one's layers is trained, then all of them for twice as long.
        trainings = methods * (len(settings.layers) + 2 if kind is StackedAutoencoder else 1)
        return Part(f"{kind.__name__}, images", trainings * settings.epochs * self.images, each / self.batch)

    def dec(self) -> Part:
        settings = self.choice.autoencoder
        few = settings.model_copy(update={"batch": self.batch, "epochs": 1, "refining_epochs": STEPS})
        each = _pace(lambda seen: fit_dec(self.made, 2, few, Run(0, None, self.device, progress=seen)))
        return Part("DEC, images", settings.refining_epochs * self.images, each / self.batch)

    def features(self) -> Iterator[Part]:
        settings = self.choice.features
        if self.choice.encoder == SCRATCH:
            few = settings.model_copy(update={"batch": self.batch, "epochs": STEPS, "queue": None, "warmup": 0.0})
            each = _pace(lambda told: train_features(self.made, few, Run(device=self.device, progress=told)))
            count = settings.epochs * ((self.images + self.extra) // settings.batch) * settings.batch
            yield Part("stage 1, images", count, each / self.batch)
        views = 1 + self.choice.views.weak + self.choice.views.strong
        yield Part("views, images", self.images * views, self._pace_of_views())

    def heads(self, settings: HeadSettings, runs: int) -> Iterator[Part]:
        batch = min(settings.batch or self.images, self.images)
        features = np.random.default_rng(0).normal(size=(batch, self.encoder.features)).astype(np.float32)
        views = Views(features, features[None], features[None])
        few = settings.model_copy(update={"epochs": STEPS, "least_steps": 1, "select_every": 10 * STEPS})
        each = _pace(lambda told: train_heads(views, few, Run(device=self.device, progress=told)))
        steps = max(settings.epochs * (self.images // batch), settings.least_steps)
        many = f" ({runs} runs)" * (runs > 1)
        yield Part(f"stage 2, steps{many}", runs * steps, each)
        if self.choice.views.fresh:  # one view that is labeled, and one that is learned
            yield Part(f"stage 2, new views{many}", 2 * runs * steps * batch, self._pace_of_views())

    def joint(self) -> Part:
        settings, card = self.choice.joint, self.card
        few = settings.model_copy(update={"labeled": self.batch, "unlabeled": self.batch, "steps": STEPS})
        if settings.network is not None:
            card = card.model_copy(update={"network": settings.network, "stem": None, "width": None})
        each = self._pace_of_joint(few, card)
        views = settings.labeled + 2 * settings.unlabeled
        return Part("stage 3, views", settings.steps * views, each / (3 * self.batch))

    def rival(self, kind: type[Objective]) -> Part:
        settings, backbone = schedule(kind, self.choice), self.card.build()
        objective = kind.of(Start(backbone, self.choice.clusters, torch.randn(self.batch, backbone.features)))
        shown = Pictures(self.made, self.choice.joint.augment, self.card.size, self.card.normalization)
        few = settings._replace(batch=self.batch, epochs=STEPS)
        each = _pace(lambda told: train(objective, shown, few, Run(device=self.device, progress=told)))
        return Part(f"{kind.__name__}, images", settings.epochs * self.images, each / self.batch)

    def joint_heads(self, name: str) -> Part:
        chosen, clusters = self.choice.joint_heads, self.choice.clusters
        batch = min(self.choice.paper_heads.batch or self.images, self.images)
        made = self._made(max(self.batch, 2 * clusters))  # the fewest that stage 2 takes
        heads = 1 if name == "Joint-SH" else chosen.heads
        changes = {"heads": heads, "epochs": STEPS, "least_steps": 1, "components": None, "batch": len(made)}
        few = self.choice.paper_heads.model_copy(update=changes)
        network, features = self.card.build(), torch.randn(len(made), self.encoder.features)
        learner = Learner.on_images(
            network, clusters, self.choice.views.augment, size=self.card.size, normalization=self.card.normalization
        )
        each = _pace(
            lambda seen: train_joint_heads(learner, made, features, few, Run(device=self.device, progress=seen))
        )
        return Part(f"{name}, images", chosen.epochs * (self.images // batch) * batch, each / len(made))

    def labeled(self, name: str) -> Part:
        semi, algorithm = self.choice.semi, ALGORITHMS[name]
        settings = semi.training
        steps = semi.supervised_steps if name == "supervised" else settings.steps
        few = settings.model_copy(
            update={"algorithm": algorithm, "labeled": self.batch, "unlabeled": self.batch, "steps": STEPS}
        )
        card = labeled_card(self.choice, self.made) if self.choice.encoder == SCRATCH else self.card
        each = self._pace_of_joint(few, card, algorithm)
        views = len(find_algorithm(algorithm).views)
        there = settings.labeled + views * settings.unlabeled
        return Part(f"{name}, views", steps * there, each / ((1 + views) * self.batch))

    def _made(self, images: int) -> InMemory:
        channels = 1 if self.choice.dataset in ("mnist", "fashion-mnist", "digits") else 3
        shape = (images, channels, self.choice.pixels, self.choice.pixels)
        return InMemory(torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(0)).byte())

    def _pace_of_views(self) -> float:
        """Seconds to make one view and to encode it."""
        none = np.empty((self.batch, 0), dtype=np.float32)
        views = with_fresh_views(Views(none, none[None], none[None]), self.made, self.encoder, self.choice.views)
        for _ in range(STEPS):
            started = time.monotonic()
            views.draw("strong", torch.arange(self.batch), torch.Generator())
        return (time.monotonic() - started) / self.batch

    def _pace_of_joint(self, few: JointSettings, card: NetworkCard, algorithm: str = "fixmatch") -> float:
        labeled = Labeled(torch.arange(self.batch), torch.arange(self.batch) % self.choice.clusters)
        learner = self._learner(card, few.augment, algorithm)
        return _pace(
            lambda told: train_jointly(learner, self.made, labeled, few, Run(device=self.device, progress=told))
        )

    def _learner(self, card: NetworkCard, augment: AugmentSettings, algorithm: str = "fixmatch") -> Learner:
        network = module_to_device(with_linear_head(card.build(), self.choice.clusters, algorithm), self.device)
        return Learner.on_images(
            network, self.choice.clusters, augment, size=card.size, normalization=card.normalization
        )


def _pace(work: Callable[[Progress], object]) -> float:
    """Seconds between two steps, without the first, which is slow."""
    times: list[float] = []

    def seen(task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:  # noqa: ARG001
        times.append(time.monotonic())

    work(seen)
    return (times[-1] - times[0]) / (len(times) - 1)


def _count(choice: Choice, table: Table) -> Count:
    published = card_of(choice.dataset).counts
    train, test = choice.train or published.train, choice.test or published.test
    return Count(train + test if table.which == "whole" else train, published.unlabeled)
