"""All settings, one frozen model per stage. `spice settings` prints them with the descriptions below.

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
    field_validator,
    model_validator,
)

# The number format in which a frozen encoder computes.
FixedPrecision = Literal["float32", "int8"]

# The paper's three stages. Reliability is part of the second one here, because it is about the labels of that stage.
Stage = Literal["features", "heads", "joint"]


class Settings(BaseModel):
    """Frozen; an unknown name is an error. The string below a field is its description."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Normalization(Settings):
    """(image - mean) / std per channel, for images in [0, 1]."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


IMAGENET = Normalization(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
# For gray images: ImageNet's mean and standard deviation over all three channels.
IMAGENET_GRAY = Normalization(mean=(0.449,), std=(0.226,))


class AugmentSettings(Settings):
    """Random augmentation."""

    flip: bool = True
    """Mirror images at random. Set it to false for digits, scans and text."""
    color: bool = True
    """Change colors and brightness. Set it to false if color alone tells the groups apart."""
    rotation: bool = True
    """Rotate strong views. Set it to false if the orientation matters, as for 6 and 9."""
    # MoCo-v2's, as in the authors' configuration.
    crop_scale: tuple[float, float] = (0.2, 1.0)
    """Contrastive views: smallest and largest share of the image's area that a crop keeps."""
    # SimCLR has no blur at 32 px.
    blur: bool = True
    """Contrastive views: blur half of them. Set it to false for images of about 32 pixels."""
    shift: PositiveInt = 4
    """Weak views: shift the image by at most this many pixels at 32 px, and in proportion at other sizes."""
    padding: Literal["zeros", "reflect"] = "zeros"
    """Weak views: how to fill the border of a shifted image: zeros (the authors' code) or reflect (FixMatch)."""
    # The paper: four; stage 3 of the authors' code: three.
    operations: PositiveInt = 4
    """Strong views: number of random operations per image."""
    # 16 of 32 px, 32 of 96 px in the authors' code.
    cutout: float = Field(default=0.5, ge=0.0, le=1.0)
    """Strong views: largest side of the square that is erased, as a share of the image's side."""

    @field_validator("crop_scale")
    @classmethod
    def _is_a_range_of_shares(cls, scale: tuple[float, float]) -> tuple[float, float]:
        if not 0 < scale[0] <= scale[1] <= 1:
            raise ValueError(f"need two shares, 0 < smallest <= largest <= 1, got {scale[0]} and {scale[1]}")
        return scale


class FeatureSettings(Settings):
    """Stage 1: the feature model (paper III-A; optimizer, queue and epochs from the authors' configuration)."""

    method: Literal["moco", "simclr", "byol"] = "moco"
    """Contrastive method: moco (the paper), simclr or byol."""
    network: str = "resnet34"
    """Network to train: resnet10, resnet18, resnet34, wrn-28-2, wrn-28-8, wrn-37-2, whitened-patches, lite0, lite2."""
    stem: Literal["imagenet", "pool", "plain"] | None = None
    """First layers of a ResNet: 7x7 with pool, 3x3 with pool, or 3x3. none: the paper's choice for the image size."""
    width: PositiveInt | None = None
    """Channels of the first layers. Fewer train faster. none: as published (64 for a ResNet)."""
    view_size: PositiveInt | None = None
    """Side of the views in pixels. Smaller views train faster. none: the size of the images."""
    # Smaller views teach as much in less time.
    early_view_size: PositiveInt | None = None
    """Side of the views in the first steps, in pixels (see `early`). none: `view_size` in all steps."""
    early: float = Field(default=0.7, ge=0.0, le=1.0)
    """Share of the steps in which views have the size `early_view_size`."""
    epochs: PositiveInt = 1000
    """Passes over all images."""
    # The authors' configuration has no warmup.
    warmup: NonNegativeFloat = 0.0
    """Epochs in which the learning rate rises linearly to `learning_rate`. Increase it if the loss diverges."""
    batch: PositiveInt = 128
    """Images per step."""
    learning_rate: PositiveFloat = 0.015
    """Learning rate of SGD, which then decays along a cosine. Lower it if the loss diverges."""
    weight_decay: float = 1e-4
    """Weight decay of SGD."""
    sgd_momentum: float = Field(default=0.9, ge=0.0, lt=1.0)
    """Momentum of SGD."""
    temperature: PositiveFloat = 0.2
    """Temperature of the contrastive loss."""
    momentum: float | None = Field(default=0.999, ge=0.0, lt=1.0)
    """Momentum of the moving average of the weights (moco, byol). none: 0.999, or less if there are few steps."""
    queue: PositiveInt | None = None
    """Number of keys in MoCo's queue. none: a quarter of the images, at most 65,536."""
    projection: PositiveInt = 128
    """Width of the projection that the contrastive loss compares."""
    augment: AugmentSettings = AugmentSettings()
    whitening: Annotated[float, Field(ge=0.0, le=1.0)] | Literal["auto"] = 0.0
    """Partial whitening of the trained features: 0 is none, 1 is full, auto minimizes alignment + uniformity."""


class ViewSettings(Settings):
    """Views of each image for stage 2, which are encoded once, before training."""

    space: Literal["images", "features"] = "images"
    """Views are augmented images (the paper; each is encoded), or features with noise (fast, for trained encoders)."""
    # A second strong view helps, a second weak one does not (docs/lab-notes).
    weak: PositiveInt = 1
    """Weak views per image, from which pseudo-labels come. Each view of images is another pass of the encoder."""
    strong: PositiveInt = 2
    """Strong views per image, from which heads learn."""
    sample: PositiveInt | None = None
    """Heads learn from at most this many random images, and label all. none: learn from all (the paper)."""
    fresh: bool = False
    """Encode new views in every step of stage 2, as in the paper: two more passes of the encoder per epoch."""
    precision: Literal["float32", "float16"] = "float32"
    """Precision of the cached weak and strong views. float16 halves their size on disk."""
    augment: AugmentSettings = AugmentSettings()
    weak_noise: float = Field(default=0.1, ge=0.0)
    """Weak views of features: standard deviation of the noise, relative to that of the features."""
    strong_noise: float = Field(default=0.3, ge=0.0)
    """Strong views of features: standard deviation of the noise, relative to that of the features."""
    strong_dropout: float = Field(default=0.2, ge=0.0, lt=1.0)
    """Strong views of features: share of the features that are replaced by their mean."""


class HeadSettings(Settings):
    """Stage 2: the clustering heads (paper III-B, Algorithm 1)."""

    clusters: PositiveInt
    """Number of groups, K. Not used if [how_many] is set, which finds it."""
    heads: PositiveInt = 10
    """Heads trained side by side; the best one is kept. Increase it if most heads fail, as with weak features."""
    epochs: PositiveInt = 100
    """Passes over the images."""
    least_steps: PositiveInt = 1
    """Small collections train for more epochs, until they have at least this many steps."""
    # The authors' code: 5,000 to 10,000.
    batch: PositiveInt | None = 1000
    """Images that are labeled together, M. Use at least ten per group. none: all images."""
    learning_rate: PositiveFloat = 0.005
    """Learning rate of Adam."""
    components: PositiveInt | None = None
    """Train heads on this many principal components of the features. none: on the features themselves (the paper)."""
    hidden: PositiveInt | None = None
    """Width of the hidden layer of a head. none: the width of its input (the paper)."""
    start: Literal["random", "kmeans", "cut"] = "random"
    """First labels of a head: its random weights (the paper), k-means, or a cut of the merge tree."""
    start_steps: PositiveInt = 10
    """Number of steps that use the labels of `start`."""
    start_runs: PositiveInt = 1
    """Runs of k-means per head if `start` is kmeans; the best one counts."""
    similarity: Literal["cosine", "graph"] = "cosine"
    """Similarity of images: cosine of features (the paper), or of features averaged over neighbors (the presets)."""
    # The authors' code: 0.5.
    center_ratio: float = Field(default=1.0, gt=0.0, le=1.0)
    """A prototype is the mean of the most confident images of a cluster: this share of M / K."""
    overlap: bool = True
    """An image may get the labels of several clusters (the paper)."""
    sizes: Literal["even", "nearest", "found"] | tuple[PositiveFloat, ...] = "even"
    """Which images a cluster labels. even: the M / K nearest to its prototype (the paper). nearest: all whose nearest
    prototype is its own. found: assigned by optimal transport, which prefers even sizes as much as `evenness` says.
    Or a list with the share of each group, if you know them."""
    # The default equals the weight of the entropy in the transport.
    evenness: float = Field(default=0.1, ge=0.0)
    """How strongly sizes = "found" prefers groups of even size. 0: not at all, as with "nearest"."""
    loss: Literal["double_softmax", "cross_entropy", "temperature"] = "double_softmax"
    """Loss: double_softmax (the paper), cross_entropy (for more than about 30 groups), or temperature."""
    temperature: PositiveFloat = 0.2
    """Temperature if `loss` is temperature."""
    entropy: float = Field(default=0.0, ge=0.0)
    """Weight of the entropy of the cluster sizes, against empty clusters. The paper needs it at 200 groups only."""
    # The authors' code: 8 repeats, sub-batches of 128 images.
    sub_batch: PositiveInt | None = None
    """Images per step of the optimizer, as in the authors' code. none: the whole batch in one step."""
    repeats: PositiveInt = 1
    """How often each labeled batch is trained on."""
    label_view: Literal["plain", "weak", "strong"] = "weak"
    """The view from which pseudo-labels come."""
    train_view: Literal["plain", "weak", "strong"] = "strong"
    """The view from which heads learn."""
    select_every: PositiveInt = 1
    """Epochs between two evaluations of the heads over all images."""
    select_by: Literal["loss", "compactness"] = "loss"
    """How the best head is selected: by its loss over all images (the paper), or by how compact its clusters are."""

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
    """Which labels of stage 2 are reliable (paper III-C)."""

    neighbors: PositiveInt | None = None
    """Neighbors whose labels are compared, N_s. none: 100 (the paper), fewer if clusters are small."""
    threshold: float = Field(default=0.95, ge=0.0, lt=1.0)
    """A label is reliable if more than this share of the neighbors have it. Raise it for fewer, purer labels."""
    rule: Literal["paper", "authors", "all"] = "paper"
    """Labels that stage 3 learns. paper: the reliable ones. authors: as in the authors' code, those that reach the
    threshold and exceed `confidence`, equally many of every cluster. all: every label (the paper's comparison)."""
    # A cluster without a reliable image would dissolve. Semi-supervised methods are published with ten or more labels
    # per class. The paper: 0.
    minimum_per_cluster: NonNegativeInt = 10
    """Rule paper: a cluster without a reliable image contributes its best ones instead, at most this many."""
    confidence: float = Field(default=0.99, ge=0.0, lt=1.0)
    """Rule authors: smallest probability of a label."""


class JointSettings(Settings):
    """Stage 3: joint training (paper III-C; optimizer, schedule and threshold are FixMatch's)."""

    algorithm: str = "fixmatch"
    """Semi-supervised algorithm: fixmatch (the paper), freematch, or one that you registered."""
    # The authors' code starts from random weights.
    init: Literal["stages", "scratch"] = "stages"
    """Continue from the weights of stages 1 and 2 (the paper), or start from random weights."""
    # Frozen layers need no backward pass. Batch norms in the trained layers keep their statistics.
    trained: float = Field(default=1.0, gt=0.0, le=1.0)
    """Share of the encoder's layers that are trained, counted from the last. Smaller is faster; the paper: 1."""
    # The paper's tables name FixMatch's networks, such as WRN-28-2 for CIFAR-10.
    network: str | None = None
    """Train another network from random weights on the reliable labels. none: continue with the network of stage 2."""
    steps: PositiveInt = 2**20
    """Training steps."""
    minutes: PositiveFloat | None = None
    """Time limit in minutes: trains for as many steps as fit, instead of `steps`. none: no limit."""
    labeled: PositiveInt = 64
    """Images with reliable labels per step."""
    unlabeled: PositiveInt = 448
    """Unlabeled images per step, drawn from all images."""
    threshold: float = Field(default=0.95, ge=0.0, le=1.0)
    """fixmatch: an image learns its predicted label if the probability reaches this value."""
    # Adam's steps do not depend on the scale of weights and features, in which pretrained networks and new heads
    # differ.
    optimizer: Literal["sgd", "adam"] = "sgd"
    """Optimizer: sgd (FixMatch's) or adam (for pretrained encoders)."""
    learning_rate: PositiveFloat = 0.03
    """Learning rate. Lower it for short trainings: 0.03 first undoes what stage 1 has learned."""
    sgd_momentum: float = Field(default=0.9, ge=0.0, lt=1.0)
    """Momentum of SGD."""
    weight_decay: float = Field(default=5e-4, ge=0.0)
    """Weight decay."""
    # FixMatch has 0.001.
    batch_norm_momentum: float | None = Field(default=None, gt=0.0, le=1.0)
    """Momentum of batch norm. 0.001 (FixMatch's) needs thousands of steps. none: the network's own, 0.1 for most."""
    ema: float | None = Field(default=0.999, ge=0.0, lt=1.0)
    """Momentum of the moving average of the weights. none: 0.999, or less if there are few steps."""
    # The authors' code subsamples every cluster to the size of the smallest, so that one empty cluster leaves no label.
    largest_share: PositiveFloat | None = 2.0
    """A cluster is drawn at most this many times as often as the median one. none: all labels equally often."""
    # Three operations (authors' code), not the four of stage 2 (the paper, in both).
    augment: AugmentSettings = AugmentSettings(operations=3)
    checks: bool = True
    """Keep the stage-2 result if joint training fails a check that needs no labels. The paper has no such checks."""


class HowManySettings(Settings):
    """Find the number of groups (`heads.clusters` is not used)."""

    least: int = Field(default=2, ge=2)
    """Smallest number of groups."""
    most: PositiveInt | None = None
    """Largest number of groups. none: as many as the collection allows."""

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.most is not None and self.most < self.least:
            raise ValueError(f"least must not be above most, got {self.least} and {self.most}")
        return self


class RunSettings(Settings):
    """Everything that the result of a run depends on, besides the images."""

    encoder: str = "lite0"
    """Encoder: lite0 (built in), scratch (trained on your images), hf:NAME, timm:NAME, onnx:FILE, features:FILE, ..."""
    size: PositiveInt | None = None
    """Side of the images in pixels. Larger shows more detail and takes longer. none: the encoder's own."""
    precision: FixedPrecision | Literal["auto"] = "auto"
    """Number format of the encoder on a CPU. auto: 8-bit integers if a trial finds them much faster on this machine."""
    extra: str | None = None
    """Folder or archive of additional images: stages 1 and 3 learn from them, but they get no label."""
    views: ViewSettings = ViewSettings()
    how_many: HowManySettings | None = None
    """Table with the range in which to search for the number of groups. none: use `heads.clusters`."""
    heads: HeadSettings
    reliability: ReliabilitySettings = ReliabilitySettings()
    features: FeatureSettings | None = None
    """Table with the settings of stage 1, for the encoder scratch. none: chosen by the number of images."""
    features_changes: dict[str, JsonValue] = {}
    """The user's changes to the settings of stage 1 that are chosen by the number of images."""
    features_seed: NonNegativeInt | None = None
    """Seed of stage 1 and of the views; set it to compare several seeds on the same features. none: `seed`."""
    joint: JointSettings | None = None
    """Table with the settings of stage 3. none: no joint training; the result is that of stage 2."""
    given: dict[str, str] = {}
    """Names that the user gave to some images, by path. They become edits of the result, and may decide K."""
    placed: dict[str, int] = {}
    """The cluster of each image that a person placed, by path. Stage 3 learns them."""
    seed: int = Field(default=0, ge=0)
    """Seed of everything random."""

    @property
    def encoder_seed(self) -> int:
        """The seed of stage 1 and of the views."""
        return self.seed if self.features_seed is None else self.features_seed
