"""All settings, one frozen model per stage.

Defaults are the paper's. A value the paper does not give comes from the authors' published configuration, and says
so; a value of our own carries its reason. `presets` returns these models filled in for a purpose.
"""

from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

# The number format in which a frozen encoder computes.
FixedPrecision = Literal["float32", "int8"]

# The paper's three stages. Reliability belongs to the second here, because it is about the labels of that stage.
Stage = Literal["features", "heads", "joint"]


class Settings(BaseModel):
    """Frozen; a misspelled name is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Normalization(Settings):
    """(image - mean) / std per channel, for images in [0, 1]."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


IMAGENET = Normalization(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
# For gray images: ImageNet's mean and standard deviation over all three channels.
IMAGENET_GRAY = Normalization(mean=(0.449,), std=(0.226,))


class AugmentSettings(Settings):
    """Random augmentation. Use `flip=False` for digits, scans and text."""

    flip: bool = True
    color: bool = True
    rotation: bool = True
    # Contrastive views: MoCo-v2, as in the authors' configuration. SimCLR has no blur at 32 px.
    crop_scale: tuple[float, float] = (0.2, 1.0)
    blur: bool = True
    # Weak views: random crop after padding by this many pixels at 32 px; with zeros (authors' code in stage 2), or by
    # reflection (FixMatch, and so the paper).
    shift: PositiveInt = 4
    padding: Literal["zeros", "reflect"] = "zeros"
    # Strong views: operations per image (paper: four; stage 3 of the authors' code: three).
    operations: PositiveInt = 4
    # Cutout: the hole's longest side as a share of the image's (16 of 32 px, 32 of 96 px in the authors' code).
    cutout: float = Field(default=0.5, ge=0.0, le=1.0)


class FeatureSettings(Settings):
    """Stage 1: the feature model (paper III-A; optimizer, queue and epochs from the authors' configuration)."""

    method: Literal["moco", "simclr", "byol"] = "moco"
    network: str = "resnet34"
    # None: the paper's stem for the images' size, and the published width (64 for a ResNet).
    stem: Literal["imagenet", "pool", "plain"] | None = None
    width: PositiveInt | None = None
    # Side of the views in pixels. None: the images' own.
    view_size: PositiveInt | None = None
    # Side of the views in the first `early` share of the steps: smaller views teach as much in less time.
    # None: `view_size` throughout.
    early_view_size: PositiveInt | None = None
    early: float = Field(default=0.7, ge=0.0, le=1.0)
    epochs: PositiveInt = 1000
    # Epochs of linear warmup; the authors' configuration has none.
    warmup: NonNegativeFloat = 0.0
    batch: PositiveInt = 128
    learning_rate: PositiveFloat = 0.015
    weight_decay: float = 1e-4
    sgd_momentum: float = 0.9
    temperature: PositiveFloat = 0.2
    # Momentum of the moving average. None: 0.999 as in the paper, or less on a short schedule.
    momentum: float | None = 0.999
    # Keys in the queue. None: a quarter of the collection, at most 65,536.
    queue: PositiveInt | None = None
    projection: PositiveInt = 128
    augment: AugmentSettings = AugmentSettings()
    # Partial whitening of the trained features: 0 is none, 1 is full, "auto" minimizes alignment + uniformity.
    whitening: Annotated[float, Field(ge=0.0, le=1.0)] | Literal["auto"] = 0.0


class ViewSettings(Settings):
    """Views of each image for stage 2, which are encoded once, before training."""

    # Augmented images (the paper), each of which has to be encoded; or features with noise.
    space: Literal["images", "features"] = "images"
    # Pseudo-labels come from weak views, and heads learn from strong ones. A second strong view helps, a second
    # weak one does not (docs/lab-notes), and each costs another pass of the encoder over all images.
    weak: PositiveInt = 1
    strong: PositiveInt = 2
    # Number of random images that get weak and strong views. Heads learn from these and label all. None: all (paper).
    sample: PositiveInt | None = None
    # Encode new views in every step of stage 2, as in the paper: two passes of the encoder over all images per epoch.
    # Heads are still selected by the first cached view of each kind.
    fresh: bool = False
    # Precision of the cached weak and strong views; float16 halves their size on disk.
    precision: Literal["float32", "float16"] = "float32"
    augment: AugmentSettings = AugmentSettings()
    # Views of features: noise in units of the features' standard deviation, and the share of features dropped.
    weak_noise: float = Field(default=0.1, ge=0.0)
    strong_noise: float = Field(default=0.3, ge=0.0)
    strong_dropout: float = Field(default=0.2, ge=0.0, lt=1.0)


class HeadSettings(Settings):
    """Stage 2: the clustering heads (paper III-B, Algorithm 1)."""

    clusters: PositiveInt  # K; if `how_many` is set, replaced by the number that is found
    heads: PositiveInt = 10
    epochs: PositiveInt = 100
    # A small collection trains for more epochs, to get at least this many steps.
    least_steps: PositiveInt = 1
    # M: images labeled together. None: all of them. The authors' code takes 5,000 to 10,000.
    batch: PositiveInt | None = 1000
    learning_rate: PositiveFloat = 0.005
    # Principal components that heads and prototypes see. None: the features themselves (the paper).
    components: PositiveInt | None = None
    # Width of a head's hidden layer. None: the width of its input, as in the paper.
    hidden: PositiveInt | None = None
    # A head's first labels: from its random weights (the paper), from its own run of k-means, or from a cut of the
    # merge tree (`stages/groups/merge_tree`).
    start: Literal["random", "kmeans", "cut"] = "random"
    # Steps whose labels come from that start; runs of k-means per head, of which it takes the best.
    start_steps: PositiveInt = 10
    start_runs: PositiveInt = 1
    # Similarity of images: cosine of their features (the paper), or of features averaged over the neighbor graph
    # ("graph", ours: `stages/heads/diffusion`). Heads see features either way.
    similarity: Literal["cosine", "graph"] = "cosine"
    # E-step. The prototype is the mean of the top center_ratio * M / K images (authors' code: 0.5).
    center_ratio: float = Field(default=1.0, gt=0.0, le=1.0)
    overlap: bool = True
    # Which images a cluster labels. "even": the M / K nearest to its prototype (the paper). "nearest" (ours): all whose
    # nearest prototype is its own. "found" (ours): those that optimal transport assigns to it; the target is even
    # sizes, and `evenness` the price of missing it (0: sizes are free, as with "nearest"; the default equals the weight
    # of the entropy). Or the shares of the groups, if known: M * share images instead of M / K; with similarity
    # "graph", the shares are a target that optimal transport has to meet.
    sizes: Literal["even", "nearest", "found"] | tuple[PositiveFloat, ...] = "even"
    evenness: float = Field(default=0.1, ge=0.0)
    # M-step.
    loss: Literal["double_softmax", "cross_entropy", "temperature"] = "double_softmax"
    temperature: PositiveFloat = 0.2
    # Weight of the entropy term, which the paper needed at K = 200 only.
    entropy: float = Field(default=0.0, ge=0.0)
    # The authors' code trains on each labeled batch `repeats` times (8), in sub-batches (128 images).
    sub_batch: PositiveInt | None = None
    repeats: PositiveInt = 1
    # The view that gives the labels, and the view that learns them.
    label_view: Literal["plain", "weak", "strong"] = "weak"
    train_view: Literal["plain", "weak", "strong"] = "strong"
    # Epochs between two evaluations of the heads over all images.
    select_every: PositiveInt = 1
    # How the best head is selected: by its loss over all images (the paper), or by how compact its clusters are.
    select_by: Literal["loss", "compactness"] = "loss"

    @property
    def shares(self) -> tuple[float, ...] | None:
        """The shares of the groups, if they are known."""
        return self.sizes if isinstance(self.sizes, tuple) else None

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        if self.shares is not None and len(self.shares) != self.clusters:
            raise ValueError(f"sizes has {len(self.shares)} shares for {self.clusters} groups")
        if self.shares is not None and abs(sum(self.shares) - 1) > 1e-4:
            raise ValueError(f"shares must sum to 1, got {sum(self.shares):g}")
        return self


class ReliabilitySettings(Settings):
    """Which labels are kept for stage 3 (paper III-C)."""

    # N_s. None: 100 as in the paper, fewer where clusters are expected to be small.
    neighbors: PositiveInt | None = None
    threshold: float = Field(default=0.95, ge=0.0, lt=1.0)
    # The labels that stage 3 learns. "paper": the reliable ones. "authors": as in the authors' code, those with r of at
    # least the threshold and a probability above `confidence`, with every cluster subsampled to the size of the
    # smallest. "all": every predicted label (the paper's comparison).
    rule: Literal["paper", "authors", "all"] = "paper"
    # Rule "paper": a cluster without a reliable image would dissolve, so stage 3 learns at most this many of its best
    # images, if most of their neighbors agree. Semi-supervised methods are published with ten or more; the paper: 0.
    minimum_per_cluster: NonNegativeInt = 10
    confidence: float = Field(default=0.99, ge=0.0, lt=1.0)


class JointSettings(Settings):
    """Stage 3: joint training (paper III-C; optimizer, schedule and threshold are FixMatch's)."""

    # A name registered in `spice.stages.joint.algorithms`: fixmatch (the paper), freematch, or one of your own.
    algorithm: str = "fixmatch"
    # The paper continues from stages 1 and 2; the authors' code starts the network from random weights.
    init: Literal["stages", "scratch"] = "stages"
    # Share of the encoder's layers that are trained, counted from the last; the paper: 1. The others are frozen and
    # need no backward pass; batch norms in the trained layers keep their statistics.
    trained: float = Field(default=1.0, gt=0.0, le=1.0)
    # None: the network of stages 1 and 2. The paper's tables name others, from FixMatch (WRN-28-2 for CIFAR-10). Such a
    # network starts from random weights, whatever `init` says, and gets the reliable labels only.
    network: str | None = None
    steps: PositiveInt = 2**20
    # Time limit: replaces `steps` by as many as fit.
    minutes: PositiveFloat | None = None
    labeled: PositiveInt = 64
    unlabeled: PositiveInt = 448
    threshold: float = Field(default=0.95, ge=0.0, le=1.0)
    # SGD is FixMatch's. Adam's steps do not depend on the scale of weights and features, in which pretrained networks
    # and new heads differ.
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: PositiveFloat = 0.03
    sgd_momentum: float = Field(default=0.9, ge=0.0, lt=1.0)
    weight_decay: float = Field(default=5e-4, ge=0.0)
    # None: the network's own, 0.1 for most. FixMatch has 0.001, which needs thousands of steps.
    batch_norm_momentum: float | None = Field(default=None, gt=0.0, le=1.0)
    # Momentum of the moving average. None: 0.999 as published, or less on a short schedule.
    ema: float | None = Field(default=0.999, ge=0.0, lt=1.0)
    # A cluster is drawn at most this many times as often as the median one. None: all labels equally often (the paper).
    # The authors' code subsamples every cluster to the size of the smallest, so that one empty cluster leaves no label.
    largest_share: PositiveFloat | None = 2.0
    # Three operations (authors' code), not the four of stage 2 (the paper, in both).
    augment: AugmentSettings = AugmentSettings(operations=3)
    # Keep the stage-2 result where joint training fails a check that needs no labels. The paper has no such checks.
    checks: bool = True


class HowManySettings(Settings):
    """The range in which to search for the number of clusters (`stages/groups/howmany`)."""

    least: int = Field(default=2, ge=2)
    # None: as many as the collection allows.
    most: PositiveInt | None = None


class RunSettings(Settings):
    """Everything that the result of a run depends on, besides the images."""

    encoder: str = "lite0"
    # Side of the encoder's input in pixels. None: the encoder's own.
    size: PositiveInt | None = None
    # Precision of the encoder on a CPU. "auto": 8-bit integers if a trial finds them much faster on this machine.
    precision: FixedPrecision | Literal["auto"] = "auto"
    # Source of additional images: stages 1 and 3 learn from them, but they get no label.
    extra: str | None = None
    views: ViewSettings = ViewSettings()
    # Find the number of clusters. None: use `heads.clusters`.
    how_many: HowManySettings | None = None
    heads: HeadSettings
    reliability: ReliabilitySettings = ReliabilitySettings()
    # Stage 1, if the encoder is `scratch`. None: a recipe for a CPU and this many images.
    features: FeatureSettings | None = None
    # The user's changes to that recipe.
    features_changes: dict[str, JsonValue] = {}
    # Seed of stage 1 and of the views, to run stages 2 and 3 with several seeds on the same features. None: `seed`.
    features_seed: NonNegativeInt | None = None
    # Stage 3. None: the result is that of stage 2.
    joint: JointSettings | None = None
    # Names that the user gave to some images, by path. They become edits of the result, and may decide K.
    given: dict[str, str] = {}
    # The cluster of each image that a person placed, by path. Stage 3 learns them.
    placed: dict[str, int] = {}
    seed: int = Field(default=0, ge=0)

    @property
    def encoder_seed(self) -> int:
        """The seed of stage 1 and of the views."""
        return self.seed if self.features_seed is None else self.features_seed
