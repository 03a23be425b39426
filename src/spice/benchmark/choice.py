"""What a table does with one data set at one size: which images, which networks, how long each method trains."""

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from spice.settings import FeatureSettings, HeadSettings, JointSettings, ReliabilitySettings, Settings, ViewSettings

WhichImages = Literal["whole", "split"]


class AutoencoderSettings(Settings):
    """The convolutional autoencoder behind the older rivals: AE, denoising AE, VAE and DEC."""

    size: PositiveInt = 32  # pixels on a side, a multiple of 8
    width: PositiveInt = 32
    code: PositiveInt = 64
    epochs: PositiveInt = 100
    batch: PositiveInt = 128
    learning_rate: PositiveFloat = 1e-3
    # DEC: at most so many epochs of its second phase.
    refining_epochs: PositiveInt = 100


class SelfLabelingSettings(Settings):
    """SCAN's last step: the network learns its own sure answers (Van Gansbeke et al., 2020)."""

    steps: PositiveInt = 10_000
    batch: PositiveInt = 1000
    threshold: float = Field(default=0.99, ge=0.0, le=1.0)
    learning_rate: PositiveFloat = 1e-4
    weight_decay: float = 1e-4


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
    reliability: ReliabilitySettings = ReliabilitySettings()
    joint: JointSettings
    joint_heads: JointHeadsSettings = JointHeadsSettings()
    autoencoder: AutoencoderSettings = AutoencoderSettings()
    self_labeling: SelfLabelingSettings = SelfLabelingSettings()
    semi: SemiSettings
    # Side to which images are shrunk for methods on bare pixels.
    bare_pixels: PositiveInt = 32
    # Methods that are not run here, and why.
    left_out: dict[str, str] = Field(default_factory=dict)
