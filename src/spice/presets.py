"""Presets: quick, standard, the demo, and one for each of the paper's data sets."""

from operator import index
from typing import Literal, NamedTuple

from spice.errors import UserError
from spice.settings import (
    AugmentSettings,
    FeatureSettings,
    HeadSettings,
    HowManySettings,
    JointSettings,
    ReliabilitySettings,
    RunSettings,
    ViewSettings,
)

PAPER = "paper:"

# The number of clusters, or a range to search. None: search; for the paper's presets, the paper's number.
Clusters = int | tuple[int, int] | None


def preset(
    name: str,
    *,
    clusters: Clusters = None,
    encoder: str | None = None,
    size: int | None = None,
    flip: bool = True,
    refine: bool = False,
    minutes: float | None = None,
    seed: int = 0,
) -> RunSettings:
    """The settings of the preset `quick`, `standard` or `paper:DATASET`, with these options."""
    if name.startswith(PAPER):
        if isinstance(clusters, tuple):
            raise UserError(f"the preset {name} needs the number of groups; give it with -k")
        settings = paper(name.removeprefix(PAPER), clusters=clusters, size=size, flip=flip, minutes=minutes, seed=seed)
        if encoder not in (None, settings.encoder):
            raise UserError(
                f"the preset {name} trains its own encoder; remove --encoder {encoder}, or use another preset"
            )
        return settings
    if name not in ("quick", "standard"):
        raise UserError(f"unknown preset {name!r}; choose quick, standard or {PAPER}{{{','.join(_PAPER)}}}")
    how_many = None
    if not clusters or isinstance(clusters, tuple):
        how_many = search_between(*clusters) if clusters else HowManySettings()
        clusters = how_many.least
    chosen = encoder or "lite0"
    usual = standard(clusters=clusters, encoder=chosen, size=size, flip=flip, refine=refine, minutes=minutes, seed=seed)
    usual = usual.model_copy(update={"how_many": how_many})
    return quick(usual) if name == "quick" else usual


def checked_clusters(clusters: object) -> Clusters:
    """The number of groups or the range to search, as Python integers; UserError if it is neither."""
    if clusters is None:
        return None
    try:
        if isinstance(clusters, tuple | list):
            least, most = map(index, clusters)
            return least, most
        number = index(clusters)  # type: ignore[arg-type]  # TypeError if it is not an integer
    except (TypeError, ValueError):
        raise UserError(f"n_clusters takes a number such as 10 or a range such as (5, 40); got {clusters!r}") from None
    if number < 1:  # 1 is refused when the images are known: scikit-learn's checks expect errors about them first
        raise UserError(f"need at least 2 groups, got {number}")
    return number


def search_between(least: int, most: int) -> HowManySettings:
    """Search for the number of groups between `least` and `most`."""
    if not 2 <= least < most:
        raise UserError(f"expected a range such as 5:40, starting at 2 or more; got {least}:{most}")
    return HowManySettings(least=least, most=most)


def with_clusters(heads: HeadSettings, clusters: int) -> HeadSettings:
    """The same settings for another number of groups. Defaults for the old number become those for the new one."""
    before, after = standard_heads(heads.clusters), standard_heads(clusters)
    unchanged = [name for name in HeadSettings.model_fields if getattr(heads, name) == getattr(before, name)]
    return heads.model_copy(update={name: getattr(after, name) for name in unchanged})


def with_cut_start(heads: HeadSettings) -> HeadSettings:
    """Heads that start from a cut of the merge tree, whose groups are of any size."""
    return heads.model_copy(update={"start": "cut", "sizes": "nearest"})


def without_cut_start(heads: HeadSettings) -> HeadSettings:
    """Heads that start from the default, not from a cut."""
    usual = standard_heads(heads.clusters)
    return heads.model_copy(update={"start": usual.start, "sizes": usual.sizes}) if heads.start == "cut" else heads


def standard(
    *,
    clusters: int,
    encoder: str = "lite0",
    size: int | None = None,
    flip: bool = True,
    refine: bool = False,
    minutes: float | None = None,
    seed: int = 0,
) -> RunSettings:
    """The default of `spice cluster`.

    Args:
        flip: allow mirrored views; False for digits, scans and text.
        refine: include joint training, for `minutes` or else a fixed number of steps.
    """
    # With a pretrained encoder, larger images gain more than augmented ones in the same time (docs/lab-notes/speed.md).
    space: Literal["images", "features"] = "images" if encoder == "scratch" else "features"
    return RunSettings(
        encoder=encoder,
        size=size,
        views=ViewSettings(space=space, sample=heads_sample(clusters), augment=AugmentSettings(flip=flip)),
        heads=standard_heads(clusters),
        joint=joint_on_cpu(pretrained=encoder != "scratch", minutes=minutes, flip=flip) if refine else None,
        seed=seed,
    )


def quick(usual: RunSettings) -> RunSettings:
    """For a first look: one view of each kind, a third of the heads, and `lite0` at 160 px instead of 224."""
    size = usual.size or (160 if usual.encoder == "lite0" else None)
    views = usual.views.model_copy(update={"weak": 1, "strong": 1})
    heads = usual.heads.model_copy(update={"heads": max(3, usual.heads.heads // 3)})
    return usual.model_copy(update={"size": size, "views": views, "heads": heads})


def demo(*, seed: int = 0) -> RunSettings:
    """All three stages from scratch on 1,797 digits of 8 x 8 pixels, in a few minutes on two cores."""
    settings = standard(clusters=10, encoder="scratch", size=16, flip=False, refine=True, seed=seed)
    features = FeatureSettings(
        method="simclr",
        network="resnet10",
        stem="plain",
        width=16,
        view_size=12,
        epochs=60,
        warmup=0.5,
        batch=256,
        learning_rate=0.3,
        weight_decay=5e-4,
        momentum=None,
        augment=AugmentSettings(flip=False),
    )
    views = ViewSettings(weak=4, strong=4, augment=AugmentSettings(flip=False))
    heads = settings.heads.model_copy(update={"heads": 30})  # with these features, many heads fail
    return settings.model_copy(update={"features": features, "views": views, "heads": heads})


# A tenth of FixMatch's; `joint_on_cpu` says why.
LOW_LEARNING_RATE = 0.003


def joint_on_cpu(*, pretrained: bool, minutes: float | None = None, flip: bool = True) -> JointSettings:
    """Stage 3 in minutes on two cores.

    Differences from the paper: at most a quarter of FixMatch's batch, a few hundred steps with a moving average over a
    twentieth of them, and a tenth of FixMatch's learning rate. FixMatch's own rate undoes within twenty steps what
    stage 1 has learned (on CIFAR-10, no prediction is confident then), and takes many more to recover.

    With a pretrained encoder, only the last fifth of its layers is trained, with fixed batch-norm statistics, by Adam
    with a low learning rate. A batch has three labeled images for each unlabeled one, since most are reliable.
    """
    augment = AugmentSettings(operations=3, flip=flip)
    if not pretrained:
        return JointSettings(
            steps=400,
            minutes=minutes,
            labeled=32,
            unlabeled=96,
            learning_rate=LOW_LEARNING_RATE,
            ema=None,
            augment=augment,
        )
    return JointSettings(
        trained=0.2,
        steps=200,
        minutes=minutes,
        labeled=48,
        unlabeled=16,
        optimizer="adam",
        learning_rate=1e-5,
        ema=None,
        augment=augment,
    )


# With more clusters, heads learn with plain cross-entropy. The double softmax damps the gradient of uncertain
# predictions, initially by 1 / K: of 100 clusters, sixteen were never learned and stayed empty.
DOUBLE_SOFTMAX_UP_TO = 30
# Heads times clusters, at most. The time and memory of a step grow with it.
MOST_PROTOTYPES = 1_000


# Heads learn from at most this many images, or this many per cluster if that is more. More images do not help
# (docs/lab-notes/scale.md has the curve), but take time and disk space.
SAMPLE, SAMPLE_PER_CLUSTER = 40_000, 400


def heads_sample(clusters: int) -> int:
    """The largest number of images that heads learn from. The head labels the others like new images."""
    return max(SAMPLE, SAMPLE_PER_CLUSTER * clusters)


def standard_heads(clusters: int) -> HeadSettings:
    """Small heads that start from k-means; `docs/lab-notes` has the reasons and measurements."""
    return HeadSettings(
        clusters=clusters,
        heads=max(5, min(10, MOST_PROTOTYPES // clusters)),  # the best of 30 is no better than the best of 10
        epochs=10,
        least_steps=45,  # as many as 3,000 images have; with 900, the loss was 1.66 after 15 steps and 1.54 after 45
        batch=max(1000, 10 * clusters),
        components=128,
        start="kmeans",
        start_runs=4,
        similarity="graph",
        sizes="found",
        loss="double_softmax" if clusters <= DOUBLE_SOFTMAX_UP_TO else "cross_entropy",
        select_every=5,
        select_by="compactness",  # the loss favors one giant cluster
    )


# Batch norm in FixMatch's wide ResNets, which train for 2^20 steps.
FIXMATCH_MOMENTUM = 0.001


def paper(
    dataset: str,
    *,
    clusters: int | None = None,
    size: int | None = None,
    flip: bool = True,
    minutes: float | None = None,
    seed: int = 0,
) -> RunSettings:
    """The paper's settings for one of its data sets, all three stages, in the whole setting."""
    features, published = paper_features(dataset), _PAPER[dataset]
    augment = AugmentSettings(flip=flip, padding="reflect", cutout=published.cutout / published.size)
    joint = JointSettings(
        network=published.network,
        minutes=minutes,
        weight_decay=published.weight_decay,
        # In a training of minutes, FixMatch's momentum would leave the statistics near their initial values.
        batch_norm_momentum=FIXMATCH_MOMENTUM if published.network and minutes is None else None,
        largest_share=None,
        augment=augment,
        checks=False,
    )
    return RunSettings(
        encoder="scratch",
        size=size or published.size,
        features=features.model_copy(update={"augment": AugmentSettings(flip=flip)}),
        views=ViewSettings(weak=1, strong=1, fresh=True, augment=augment),
        heads=HeadSettings(clusters=clusters or published.clusters, epochs=published.epochs, entropy=published.entropy),
        reliability=ReliabilitySettings(neighbors=100, minimum_per_cluster=0),
        joint=joint if published.has_stage_3 else None,
        seed=seed,
    )


def paper_features(dataset: str) -> FeatureSettings:
    """Stage 1 as in the paper, for one of its data sets; epochs and queues from the authors' configuration."""
    if dataset not in _PAPER:
        raise UserError(f"the paper has no data set {dataset!r}; choose from {', '.join(_PAPER)}")
    return _PAPER[dataset].features


def authors_reliability(dataset: str) -> ReliabilitySettings:
    """The authors' rule for the labels of stage 3, on one of the paper's data sets."""
    threshold = 0.99 if dataset.startswith("cifar") else 0.90
    return ReliabilitySettings(neighbors=100, threshold=threshold, rule="authors", confidence=0.99)


class _Paper(NamedTuple):
    """Settings for a data set, from the paper or else from the authors' configuration."""

    clusters: int
    size: int
    cutout: int  # side of the erased square in stage 2, in pixels
    features: FeatureSettings  # queue None: not given in the configuration
    network: str | None = None  # of stage 3, after FixMatch; None: that of stage 1
    weight_decay: float = 5e-4  # of stage 3, after FixMatch
    epochs: int = 100  # of stage 2
    entropy: float = 0.0
    has_stage_3: bool = True


_POOLED = FeatureSettings(network="resnet34", stem="pool")
_IMAGENET = FeatureSettings(network="resnet34", stem="imagenet", epochs=3000)
_PAPER = {
    "stl10": _Paper(10, 96, 32, _POOLED.model_copy(update={"queue": 65_536}), network="wrn-37-2"),
    # The authors' code has ResNet-18 here; the paper ResNet-34 on all data sets, except in the split setting.
    "cifar10": _Paper(
        10, 32, 16, FeatureSettings(network="resnet34", stem="plain", queue=12_800), network="wrn-28-2", epochs=30
    ),
    "cifar100-20": _Paper(20, 32, 16, _POOLED, network="wrn-28-8", weight_decay=1e-3),
    # The paper uses the entropy term but does not give its weight. It has no stage 3 here, because some clusters had no
    # reliable image.
    "tiny-imagenet": _Paper(200, 64, 32, _POOLED, entropy=1.0, has_stage_3=False),
    "imagenet-10": _Paper(10, 224, 32, _IMAGENET.model_copy(update={"epochs": 5000})),
    "imagenet-dog": _Paper(15, 224, 32, _IMAGENET),
}


def features_on_cpu(*, images: int, size: int, flip: bool = True) -> FeatureSettings:
    """Stage 1 from scratch in at most half an hour on two cores, for small images (up to about 40 px).

    Differences from the paper (measured in docs/lab-notes):

    - SimCLR, which learns from both views in one pass, with its authors' temperature and without blur, as for CIFAR-10.
    - A network of six convolutions that starts from whitened patches.
    - Views with three quarters of the images' side: random crops enlarge objects, which then have about the same size
      as in whole images (Touvron et al. 2019). In most steps, views with half the side, which teach as much for less
      than half the work (Tan and Le 2021).
    - Learning rate and weight decay as usual for CIFAR-10 at this batch size. Up to 100 epochs, as time allows.
    - Features are partially whitened afterwards.
    """
    return FeatureSettings(
        method="simclr",
        network="whitened-patches",
        width=32,
        view_size=_multiple_of_four(0.75 * size),
        early_view_size=_multiple_of_four(0.5 * size),
        early=0.9,
        epochs=min(100, max(1, round(700_000 / images))),
        warmup=0.5,
        batch=256,
        learning_rate=0.3,
        weight_decay=5e-4,
        temperature=0.5,
        momentum=None,
        augment=AugmentSettings(flip=flip, blur=False),
        whitening="auto",
    )


def _multiple_of_four(pixels: float) -> int:
    """The nearest multiple of four, at least eight, so that the map does not vanish in the network."""
    return max(8, round(pixels / 4) * 4)
