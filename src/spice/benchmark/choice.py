"""What a table does with one data set: which images, which networks, how long each method trains.

Every table has three sizes: `smoke` (seconds), `cpu` (subsets, small networks), `full` (the paper's).
"""

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from spice.benchmark.datasets import card_of
from spice.benchmark.tables.catalog import SizeName, Table
from spice.errors import UserError
from spice.presets import LOW_LEARNING_RATE, features_on_cpu, joint_on_cpu, paper, standard_heads
from spice.settings import (
    AugmentSettings,
    FeatureSettings,
    HeadSettings,
    JointSettings,
    ReliabilitySettings,
    Settings,
    ViewSettings,
)

WhichImages = Literal["whole", "split"]


class AutoencoderSettings(Settings):
    """The autoencoders behind the older rivals: convolutional for AE and VAE, stacked for SDAE and DEC."""

    size: PositiveInt = 32  # pixels on a side, a multiple of 8
    width: PositiveInt = 32
    code: PositiveInt = 64
    layers: tuple[PositiveInt, ...] = (500, 500, 2000, 10)  # the stacked one's widths; the last is its code's
    # Of AE and VAE, and of each layer of the stacked one, which then has twice as many as a whole.
    epochs: PositiveInt = 100
    batch: PositiveInt = 256
    learning_rate: PositiveFloat = 1e-3
    # DEC: most epochs of its second phase.
    refining_epochs: PositiveInt = 100


class RivalSettings(Settings):
    """The rivals that train a network on images (`spice.benchmark.deep`): None is what each one's paper has."""

    # Of those that start from random weights, and of those that start from the feature model of stage 1.
    epochs: PositiveInt | None = None
    tuning_epochs: PositiveInt | None = None
    batch: PositiveInt | None = None
    # Times each one's learning rate, for trainings that are much shorter.
    faster: PositiveFloat = 1.0
    # A larger probability is a label, in SCAN's self-labeling and in RUC.
    confident: float = Field(default=0.99, ge=0.0, le=1.0)


class SemiSettings(Settings):
    """Training with true labels: FixMatch's schedule for all algorithms (Table V), and the supervised reference."""

    labels: PositiveInt  # n, over all classes
    # Random weights, as published; or those of the first stage, where steps are too few for that.
    start: Literal["scratch", "features"] = "scratch"
    training: JointSettings = JointSettings()
    # The supervised reference sees every label; it needs no others, and fewer steps.
    supervised_steps: PositiveInt = 100_000


class JointHeadsSettings(Settings):
    """Joint-SH and Joint-MH: the feature model learns along with the heads (Table VII)."""

    epochs: PositiveInt = 100
    heads: PositiveInt = 10
    network_rate: PositiveFloat = 1e-4


# The row of Table III that differs from SPICE in its networks.
LARGER = "SPICE (ResNet-34)"


class Larger(Settings):
    """The networks of that row."""

    features: FeatureSettings
    joint: JointSettings


class Choice(Settings):
    """One data set of a table."""

    dataset: str
    clusters: PositiveInt
    pixels: PositiveInt  # on a side, of the images that networks see
    # Images kept of each part, drawn at random. None: all of them.
    train: PositiveInt | None = None
    test: PositiveInt | None = None
    # `scratch`: stage 1 on these images. Anything else is an encoder that has seen other images.
    encoder: str = "scratch"
    # One feature model, of seed 0, for all seeds: their spread is then that of the methods on the same features.
    one_encoder: bool = False
    features: FeatureSettings
    views: ViewSettings
    heads: HeadSettings
    # The paper's heads, from which the rows of the ablation differ by one thing each: random weights, selected by loss.
    paper_heads: HeadSettings
    # The paper's rule: nothing is learned of a cluster without a reliable image.
    reliability: ReliabilitySettings = ReliabilitySettings(minimum_per_cluster=0)
    joint: JointSettings
    larger: Larger | None = None
    joint_heads: JointHeadsSettings = JointHeadsSettings()
    autoencoder: AutoencoderSettings = AutoencoderSettings()
    rivals: RivalSettings = RivalSettings()
    semi: SemiSettings
    # Side to which images are shrunk for methods on bare pixels.
    bare_pixels: PositiveInt = 32
    # Methods that are not run here, and why.
    left_out: dict[str, str] = Field(default_factory=dict)

    def of_row(self, method: str) -> "Choice":
        """The settings of one row: all rows but one have the same."""
        if method != LARGER or self.larger is None:
            return self
        return self.model_copy(update={"features": self.larger.features, "joint": self.larger.joint, "larger": None})


SEEDS: dict[SizeName, tuple[int, ...]] = {"smoke": (0, 1), "cpu": (0, 1, 2), "full": (0, 1, 2, 3, 4)}


def choices(table: Table, size: SizeName) -> list[Choice]:
    """The data sets of a table at a size, each with all its settings."""
    if size == "smoke":
        return [_digits()]
    if size == "cpu":
        return _on_cpu(table)
    return [_as_published(dataset, table) for dataset in _DATASETS[table.name]]


def _digits() -> Choice:
    """Runs everything once, as briefly as possible, to show that it runs. The scores mean nothing."""
    upright = AugmentSettings(flip=False)
    few = JointSettings(steps=2, labeled=8, unlabeled=8, learning_rate=0.01, ema=None, augment=upright, checks=False)
    features = _small_features(16, epochs=1, width=4, batch=100, mirror=False)
    return Choice(
        dataset="digits",
        clusters=10,
        pixels=16,
        train=200,
        test=100,
        features=features,
        views=ViewSettings(weak=1, strong=1, augment=upright),
        heads=standard_heads(10).model_copy(update={"heads": 4, "epochs": 2, "least_steps": 20, "components": 16}),
        paper_heads=HeadSettings(clusters=10, heads=4, epochs=2, least_steps=20, components=16, select_every=2),
        reliability=ReliabilitySettings(threshold=0.5),
        joint=few,
        larger=Larger(features=features.model_copy(update={"width": 8}), joint=few),
        joint_heads=JointHeadsSettings(epochs=1, heads=2),
        autoencoder=AutoencoderSettings(
            size=16, width=4, code=8, layers=(16, 8), epochs=2, batch=50, refining_epochs=2
        ),
        rivals=RivalSettings(epochs=2, tuning_epochs=1, batch=100, confident=0.1),
        semi=SemiSettings(labels=20, start="features", training=few, supervised_steps=2),
    )


def _on_cpu(table: Table) -> list[Choice]:
    """Subsets that fit: Fashion-MNIST and CIFAR-10 from scratch, Imagenette's photos with `lite0`.

    The entropy term is about many clusters: its table has the 100 kinds of Caltech-101.
    """
    small = [_from_scratch("fashion-mnist", 28), _from_scratch("cifar10", 32)]
    if table.name in ("semi-supervised", "feature-quality"):
        return small  # both are about training the feature model
    if table.name == "entropy":
        return [_many_kinds()]
    if table.name == "frozen":
        return [_photos(train=None, test=None), *small]
    return [*small, _photos(train=1500, test=500)]


def _from_scratch(dataset: str, pixels: int) -> Choice:
    # As in the paper, no checks may keep stage 2's answer.
    joint = JointSettings(steps=120, labeled=32, unlabeled=64, learning_rate=LOW_LEARNING_RATE, ema=None, checks=False)
    labeled = JointSettings(steps=100, labeled=32, unlabeled=48, learning_rate=LOW_LEARNING_RATE, ema=None)
    return Choice(
        dataset=dataset,
        clusters=10,
        pixels=pixels,
        train=1500,
        test=500,
        one_encoder=True,
        features=_small_features(pixels, epochs=60, width=16, batch=128),
        views=ViewSettings(weak=4, strong=4),
        heads=standard_heads(10),
        paper_heads=HeadSettings(clusters=10, epochs=30, components=128, select_every=10),
        joint=joint,
        joint_heads=JointHeadsSettings(epochs=3),
        autoencoder=AutoencoderSettings(width=16, code=32, epochs=10, batch=128, refining_epochs=10),
        rivals=RivalSettings(epochs=60, tuning_epochs=10, batch=128, faster=10.0),
        semi=SemiSettings(labels=100, start="features", training=labeled, supervised_steps=200),
        left_out={LARGER: "all rows of this size have the same small network"},
    )


def _photos(*, train: int | None, test: int | None) -> Choice:
    """Imagenette with an encoder that has seen ImageNet's labels: its scores are not those of learning without any.

    The third stage trains its last layers alone, as the preset does; what would train all of it is left out.
    """
    base = _from_scratch("imagenette", 160)
    rivals = ("IIC", "PICA", "CC", "IDFD", "SCAN*", "SCAN", "RUC (SCAN)", "RUC (SPICE-s)")
    trained = (*rivals, "Joint-SH", "Joint-MH", "supervised")
    return base.model_copy(
        update={
            "encoder": "lite0",
            "train": train,
            "test": test,
            "views": ViewSettings(weak=2, strong=2),
            "joint": joint_on_cpu(pretrained=True).model_copy(update={"steps": 100, "checks": False}),
            "left_out": base.left_out
            | dict.fromkeys(trained, "training all of `lite0` at 160 px takes hours on one core"),
        }
    )


def _many_kinds() -> Choice:
    kinds, photos = card_of("caltech-100").clusters, _photos(train=None, test=None)
    heads = {"heads": standard_heads(kinds), "paper_heads": photos.paper_heads.model_copy(update={"clusters": kinds})}
    return photos.model_copy(update={"dataset": "caltech-100", "clusters": kinds, **heads})


def _small_features(pixels: int, *, epochs: int, width: int, batch: int, mirror: bool = True) -> FeatureSettings:
    """`presets.features_on_cpu`, narrower, in smaller batches, for fewer epochs, and as training leaves them."""
    usual = features_on_cpu(images=1000, size=pixels, flip=mirror)
    rate = usual.learning_rate * batch / usual.batch  # the linear rule
    less = {"width": width, "epochs": epochs, "batch": batch, "learning_rate": rate, "whitening": 0.0}
    return usual.model_copy(update=less)


_WHOLE = ("stl10", "imagenet-10", "imagenet-dog", "cifar10", "cifar100-20", "tiny-imagenet")
_DATASETS = {
    "whole": _WHOLE,
    "split": ("stl10", "cifar10", "cifar100-20"),
    "detailed": ("stl10",),
    "semi-supervised": ("stl10", "cifar10"),
    "feature-quality": ("stl10", "cifar10", "cifar100-20"),
    "ablation": ("stl10",),
    "augmentation": ("stl10",),
    "temperature": ("stl10",),
    "entropy": ("tiny-imagenet",),
    "all-labels": ("cifar10",),
    "frozen": _WHOLE,
}
# n in Table V, as FixMatch has it: 1,000 of STL-10, 250 of CIFAR-10.
_LABELS = {"stl10": 1000, "cifar10": 250}


def _as_published(dataset: str, table: Table) -> Choice:
    run = paper(dataset)
    if run.size is None or run.features is None:
        raise UserError(f"the preset paper:{dataset} trains no feature model")
    features, joint = run.features, run.joint or JointSettings()
    larger: Larger | None = None
    # Table V compares with FixMatch on its own networks, after stages 1 and 2 with ResNet-34. In the other tables of
    # the split setting all stages train ResNet-18, with the same stem; one row has the networks of the whole setting.
    if table.which == "split" and table.name != "semi-supervised":
        larger = Larger(features=features, joint=joint)
        features = features.model_copy(update={"network": "resnet18"})
        joint = joint.model_copy(update={"network": None, "batch_norm_momentum": None})
    clusters = run.heads.clusters
    return Choice(
        dataset=dataset,
        clusters=clusters,
        pixels=run.size,
        features=features,
        views=run.views,
        heads=run.heads,
        paper_heads=run.heads,
        reliability=run.reliability,
        joint=joint,
        larger=larger,
        autoencoder=_autoencoder_of_dec(dataset, table, run.size),
        semi=SemiSettings(labels=_LABELS.get(dataset, 20 * clusters), training=joint),
        left_out={} if run.joint else {"SPICE": "the paper has no third stage for this data set"},
    )


def _autoencoder_of_dec(dataset: str, table: Table, pixels: int) -> AutoencoderSettings:
    """DEC trains a layer for 50,000 steps of 256 images, and all of them for 100,000."""
    counts, usual = card_of(dataset).counts, AutoencoderSettings()
    images = counts.train + counts.test if table.which == "whole" else counts.train
    return AutoencoderSettings(size=min(pixels, 96) // 8 * 8, epochs=round(50_000 / (images // usual.batch)))
