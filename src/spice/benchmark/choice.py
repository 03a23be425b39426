"""The settings of a table for one data set: images, networks, and how long each method trains.

Every table has three sizes: `smoke` (seconds), `cpu` (subsets, small networks) and `full` (as in the paper).
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
    """The autoencoders of the older rivals: convolutional for AE and VAE, stacked for SDAE and DEC."""

    size: PositiveInt = 32  # pixels on a side, a multiple of 8
    width: PositiveInt = 32
    code: PositiveInt = 64
    layers: tuple[PositiveInt, ...] = (500, 500, 2000, 10)  # widths of the stacked one; the last is the code
    # For AE, VAE, and each layer of the stacked one, which is then trained as a whole for twice as many.
    epochs: PositiveInt = 100
    batch: PositiveInt = 256
    learning_rate: PositiveFloat = 1e-3
    # DEC: largest number of epochs of the second phase.
    refining_epochs: PositiveInt = 100


class RivalSettings(Settings):
    """The rivals that train a network on images (`spice.benchmark.deep`). None: as each one's authors have it."""

    # For rivals that start from random weights, and for those that start from the feature model of stage 1.
    epochs: PositiveInt | None = None
    tuning_epochs: PositiveInt | None = None
    batch: PositiveInt | None = None
    # Factor of each one's learning rate, for much shorter trainings.
    faster: PositiveFloat = 1.0
    # SCAN's self-labeling and RUC: the probability above which a prediction becomes a label.
    confident: float = Field(default=0.99, ge=0.0, le=1.0)


class SemiSettings(Settings):
    """Training with true labels: the algorithms of Table V, with FixMatch's schedule, and the supervised reference."""

    labels: PositiveInt  # n, over all classes
    # Random weights, as published, or the weights of stage 1 if there are too few steps for that.
    start: Literal["scratch", "features"] = "scratch"
    training: JointSettings = JointSettings()
    # The supervised reference learns all labels, and needs fewer steps.
    supervised_steps: PositiveInt = 100_000


class JointHeadsSettings(Settings):
    """Joint-SH and Joint-MH: feature model and heads are trained together (Table VII)."""

    epochs: PositiveInt = 100
    heads: PositiveInt = 10
    network_rate: PositiveFloat = 1e-4


# The row of Table III that is SPICE with larger networks.
LARGER = "SPICE (ResNet-34)"


class Larger(Settings):
    """The networks of the row `LARGER`."""

    features: FeatureSettings
    joint: JointSettings


class Choice(Settings):
    """The settings of a table for one data set."""

    dataset: str
    clusters: PositiveInt
    pixels: PositiveInt  # on a side, of the images that networks see
    # Images kept of each part, drawn at random. None: all of them.
    train: PositiveInt | None = None
    test: PositiveInt | None = None
    # `scratch`: trained on these images (stage 1). Any other encoder has seen other images.
    encoder: str = "scratch"
    # One feature model, with seed 0, for all seeds. Then the spread over seeds is that of the methods alone.
    one_encoder: bool = False
    features: FeatureSettings
    views: ViewSettings
    heads: HeadSettings
    # The paper's heads, from which each row of the ablation differs in one setting.
    paper_heads: HeadSettings
    # The paper's rule: stage 3 learns nothing from a cluster without a reliable image.
    reliability: ReliabilitySettings = ReliabilitySettings(minimum_per_cluster=0)
    joint: JointSettings
    larger: Larger | None = None
    joint_heads: JointHeadsSettings = JointHeadsSettings()
    autoencoder: AutoencoderSettings = AutoencoderSettings()
    rivals: RivalSettings = RivalSettings()
    semi: SemiSettings
    # Side to which images are resized for methods on raw pixels.
    bare_pixels: PositiveInt = 32
    # Methods that are not run, and why.
    left_out: dict[str, str] = Field(default_factory=dict)

    def of_row(self, method: str) -> "Choice":
        """The settings of one row. All rows but `LARGER` have the same."""
        if method != LARGER or self.larger is None:
            return self
        return self.model_copy(update={"features": self.larger.features, "joint": self.larger.joint, "larger": None})


SEEDS: dict[SizeName, tuple[int, ...]] = {"smoke": (0, 1), "cpu": (0, 1, 2), "full": (0, 1, 2, 3, 4)}


def choices(table: Table, size: SizeName) -> list[Choice]:
    """The settings of a table for each of its data sets."""
    if size == "smoke":
        return [_digits()]
    if size == "cpu":
        return _on_cpu(table)
    return [_as_published(dataset, table) for dataset in _DATASETS[table.name]]


def _digits() -> Choice:
    """Runs everything once, as briefly as possible, to test that it runs. The scores mean nothing."""
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
    """Subsets that a CPU can train on: Fashion-MNIST and CIFAR-10 from scratch, Imagenette's photos with `lite0`.

    The entropy term is for many clusters, so its table has the 100 kinds of Caltech-101.
    """
    small = [_from_scratch("fashion-mnist", 28), _from_scratch("cifar10", 32)]
    if table.name in ("semi-supervised", "feature-quality"):
        return small  # both train the feature model
    if table.name == "entropy":
        return [_many_kinds()]
    if table.name == "frozen":
        return [_photos(train=None, test=None), *small]
    return [*small, _photos(train=1500, test=500)]


def _from_scratch(dataset: str, pixels: int) -> Choice:
    # Without checks, as in the paper: the result is that of joint training.
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
    """Imagenette with an encoder that was trained with ImageNet's labels, so its scores are not unsupervised ones.

    Stage 3 trains only the last layers, as the preset does. Methods that train all layers are left out.
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
    """`presets.features_on_cpu` with a narrower network, smaller batches and fewer epochs, and without whitening."""
    usual = features_on_cpu(images=1000, size=pixels, flip=mirror)
    rate = usual.learning_rate * batch / usual.batch  # the linear scaling rule
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
# n in Table V, as in FixMatch.
_LABELS = {"stl10": 1000, "cifar10": 250}


def _as_published(dataset: str, table: Table) -> Choice:
    run = paper(dataset)
    if run.size is None or run.features is None:
        raise UserError(f"the preset paper:{dataset} trains no feature model")
    features, joint = run.features, run.joint or JointSettings()
    larger: Larger | None = None
    # Table V has FixMatch's networks in stage 3, after stages 1 and 2 with ResNet-34. In the other tables of the split
    # setting, all stages train a ResNet-18 with the same stem. One row has the networks of the whole setting.
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
    """As in DEC: 50,000 steps of 256 images for each layer, then 100,000 for all together."""
    counts, usual = card_of(dataset).counts, AutoencoderSettings()
    images = counts.train + counts.test if table.which == "whole" else counts.train
    return AutoencoderSettings(size=min(pixels, 96) // 8 * 8, epochs=round(50_000 / (images // usual.batch)))
