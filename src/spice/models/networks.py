"""Untrained networks by name: ResNets (paper III-A, IV), wide ResNets (III-C), and a small one for CPUs.

Shapes: B or N images, C channels, S pixels on a side, D feature width.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spice.models.backbone import Backbone, Pool, initialize_convolutions_
from spice.models.efficientnet import SCALES, EfficientNetLite

Stem = Literal["imagenet", "pool", "plain"]
STEMS: tuple[Stem, ...] = get_args(Stem)

# Blocks in each of the four groups of a ResNet. Depth 10 is ours, for CPUs; the others are He et al.'s.
BLOCKS = {10: (1, 1, 1, 1), 18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}

SLOPE = 0.1  # of the leaky ReLU in FixMatch's wide ResNets

# Whitened patches: pixels on a side, and principal components kept per channel. The other components are mostly noise.
PATCH, COMPONENTS = 3, 4
# Variances below this share of the largest are mostly noise; smaller ones are not amplified further.
PATCH_FLOOR, WHITENING_FLOOR = 5e-4, 1e-5


def network(name: str, *, stem: Stem | None = None, width: int | None = None, channels: int = 3) -> Backbone:
    """The network called `name`. Defaults are as published: stem "imagenet", width 64 or 16, 3 channels."""
    if name not in NETWORKS:
        raise ValueError(f"unknown network {name!r}; choose from {', '.join(NETWORKS)}")
    if stem is not None and not name.startswith("resnet"):
        raise ValueError(f"{name} has a fixed stem; only ResNets take one, got {stem!r}")
    if width is not None and name in SCALES:
        raise ValueError(f"{name} has a fixed width, got {width}")
    options = {"stem": stem, "width": width}
    return NETWORKS[name](channels=channels, **{key: value for key, value in options.items() if value is not None})


def stem_for(size: int) -> Stem:
    """The paper's stem for this image size: plain at 32 px, pool at 64 and 96, ImageNet's at 224."""
    if size <= 40:
        return "plain"
    return "pool" if size <= 128 else "imagenet"


class ResNet(Backbone):
    """A stem (7x7 with pool, 3x3 with pool, or 3x3 alone), then four groups of basic blocks. D = 8 `width`.

    Submodules have the names of torchvision's ResNet, so that its published weights can be loaded.
    """

    def __init__(self, depth: int, *, stem: Stem = "imagenet", width: int = 64, channels: int = 3) -> None:
        if depth not in BLOCKS:
            raise ValueError(f"unknown ResNet depth {depth}; choose from {', '.join(map(str, BLOCKS))}")
        if stem not in STEMS:
            raise ValueError(f"unknown stem {stem!r}; choose from {', '.join(STEMS)}")
        super().__init__()
        kernel, stride = (7, 2) if stem == "imagenet" else (3, 1)
        self.conv1 = nn.Conv2d(channels, width, kernel, stride=stride, padding=kernel // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        # "pool", as in the authors' code: with this padding, a 96 px image has a map of 49 px here and 7 px at the end.
        pool = 3 if stem == "imagenet" else 2
        self.maxpool = nn.Identity() if stem == "plain" else nn.MaxPool2d(pool, stride=2, padding=1)
        one, two, three, four = BLOCKS[depth]
        self.layer1 = _group(width, width, one, stride=1)
        self.layer2 = _group(width, width * 2, two, stride=2)
        self.layer3 = _group(width * 2, width * 4, three, stride=2)
        self.layer4 = _group(width * 4, width * 8, four, stride=2)
        self.features = width * 8
        initialize_convolutions_(self)

    def feature_map(self, images: Tensor) -> Tensor:
        maps: Tensor = self.maxpool(F.relu(self.bn1(self.conv1(images))))
        for group in (self.layer1, self.layer2, self.layer3, self.layer4):
            maps = group(maps)
        return maps  # (B, D, h, w)

    def chain(self) -> list[nn.Module]:
        stem = nn.Sequential(self.conv1, self.bn1, nn.ReLU(), self.maxpool)
        return [stem, *self.layer1, *self.layer2, *self.layer3, *self.layer4, Pool()]


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, width_in: int, width: int, *, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample: nn.Module = nn.Identity()
        if stride > 1 or width_in != width:
            projection = nn.Conv2d(width_in, width, 1, stride=stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(width))

    def forward(self, maps: Tensor) -> Tensor:
        inner = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(maps)))))
        return F.relu(inner + self.downsample(maps))


def _group(width_in: int, width: int, count: int, *, stride: int) -> nn.Sequential:
    first = BasicBlock(width_in, width, stride=stride)
    return nn.Sequential(first, *(BasicBlock(width, width, stride=1) for _ in range(count - 1)))


class WideResNet(Backbone):
    """WRN-`depth`-`widen`: 28-2 and 28-8 in three groups (32 px), 37-2 in four, the first with stride 2 (STL-10).

    A 3x3 stem, groups of pre-activation blocks, each twice as wide as the one before, and a last activation. A group
    has n blocks of two layers. With the stem and one shortcut per group, depth = 2 n groups + groups + 1.
    The momentum of batch norm is torch's 0.1; FixMatch's 0.001 suits its 2^20 steps only.
    """

    def __init__(
        self, depth: int, widen: int, *, groups: int = 3, first_stride: int = 1, width: int = 16, channels: int = 3
    ) -> None:
        count, rest = divmod(depth - groups - 1, 2 * groups)
        if rest or count < 1:
            raise ValueError(f"a WideResNet of {groups} groups has depth {groups + 1} + {2 * groups} n, got {depth}")
        super().__init__()
        self.stem = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        self.blocks = nn.Sequential()
        width_in = width
        for group in range(groups):
            width_out = width * widen * 2**group
            for number in range(count):
                stride = 1 if number else (2 if group else first_stride)
                first = not len(self.blocks)
                self.blocks.append(PreActivationBlock(width_in, width_out, stride=stride, activate_all=first))
                width_in = width_out
        self.norm = nn.BatchNorm2d(width_in)
        self.features = width_in
        initialize_convolutions_(self)

    def feature_map(self, images: Tensor) -> Tensor:
        return F.leaky_relu(self.norm(self.blocks(self.stem(images))), SLOPE)  # (B, D, h, w)

    def chain(self) -> list[nn.Module]:
        return [self.stem, *self.blocks, nn.Sequential(self.norm, nn.LeakyReLU(SLOPE)), Pool()]


class PreActivationBlock(nn.Module):
    """Twice norm, activation, convolution. The shortcut skips the first activation, except in the first block."""

    def __init__(self, width_in: int, width: int, *, stride: int, activate_all: bool) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(width_in)
        self.conv1 = nn.Conv2d(width_in, width, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or width_in != width:
            self.shortcut = nn.Conv2d(width_in, width, 1, stride=stride, bias=False)
        self.activate_all = activate_all

    def forward(self, maps: Tensor) -> Tensor:
        active = F.leaky_relu(self.norm1(maps), SLOPE)
        inner: Tensor = self.conv2(F.leaky_relu(self.norm2(self.conv1(active)), SLOPE))
        shortcut: Tensor = self.shortcut(active if self.activate_all else maps)
        return inner + shortcut


class WhitenedPatchesNet(Backbone):
    """A first layer that whitens patches of pixels, then three blocks that each halve the map. D = 8 `width`.

    Trained in minutes on a CPU. After Page (2019) and Jordan (2024), who train such networks on CIFAR-10 in seconds on
    a GPU. The first layer is not learned but computed from the images: it removes the correlation between neighboring
    pixels, as in Coates and Ng (2011). Not to be confused with `PartialWhitening`, which acts on features.
    """

    def __init__(self, *, width: int = 64, channels: int = 3) -> None:
        super().__init__()
        filters = 2 * COMPONENTS * channels
        self.whitening = nn.Conv2d(channels, filters, PATCH, padding=1, bias=False)
        widths = (filters, width, 4 * width, 8 * width)
        self.blocks = nn.Sequential(*(PooledBlock(*pair) for pair in pairwise(widths)))
        self.features = widths[-1]
        initialize_convolutions_(self)
        self.whitening.requires_grad_(False)

    @torch.no_grad()
    def prepare_(self, images: Tensor) -> None:
        """Set the first layer to the whitened principal components of the images' patches, and their negatives.

        Images are normalized, (B, C, S, S).
        """
        patches = F.unfold(images, PATCH).transpose(1, 2).flatten(0, 1).double()  # (B * places, n = 9 C)
        variances, directions = torch.linalg.eigh(patches.T.cov())  # (n,), (n, n) in columns
        largest = variances[-1] if variances[-1] > 1e-6 else variances.new_ones(())  # 0 for images of one color
        scale = (variances.clamp(min=0.0) + PATCH_FLOOR * largest).rsqrt()
        kept = (directions * scale).T[-(len(self.whitening.weight) // 2) :]  # eigh sorts by variance, ascending
        filters = kept.reshape(-1, images.shape[1], PATCH, PATCH)
        self.whitening.weight.copy_(torch.cat([filters, -filters]))

    def feature_map(self, images: Tensor) -> Tensor:
        maps: Tensor = self.blocks(F.relu(self.whitening(images)))
        return maps  # (B, D, S / 8, S / 8)

    def chain(self) -> list[nn.Module]:
        return [nn.Sequential(self.whitening, nn.ReLU()), *self.blocks, Pool()]


class PooledBlock(nn.Module):
    """Two 3x3 convolutions with max pooling in between, which unlike a stride uses all of the map."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)

    def forward(self, maps: Tensor) -> Tensor:
        half = F.relu(self.norm1(F.max_pool2d(self.conv1(maps), 2)))
        return F.relu(self.norm2(self.conv2(half)))


class PartialWhitening(Backbone):
    """A trained network, followed by a linear layer that partially whitens its features (for paper III-A).

    After half an hour of contrastive learning, most of the variance of a small network's features lies in a few
    directions, which dominate the cosines. The layer centers the features and brings the variances of their directions
    closer together; amount 1 is full whitening. It is the identity until `fit_` computes it.
    """

    def __init__(self, network: Backbone) -> None:
        super().__init__()
        self.network = network
        self.features = network.features
        self.linear = nn.Linear(network.features, network.features)
        nn.init.eye_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        self.exportable = network.exportable  # type: ignore[method-assign]

    @torch.no_grad()
    def fit_(self, features: Tensor, amount: float) -> None:
        """Compute the layer from the network's features (N, D): variances v become v^(1 - amount) max(v)^amount.

        Amount 1 makes all variances equal; amount 0.5 replaces their ratios by square roots.
        """
        rows = features.double()
        variances, directions = torch.linalg.eigh(rows.T.cov())  # (D,) ascending, (D, D) in columns
        largest = variances[-1].clamp(min=1e-12)  # 0 for constant features
        scale = (variances / largest).clamp(min=WHITENING_FLOOR) ** (-amount / 2)
        weight = (directions * scale) @ directions.T  # ZCA, the symmetric solution, which does not rotate
        self.linear.weight.copy_(weight)
        self.linear.bias.copy_(-weight @ rows.mean(dim=0))

    def feature_map(self, images: Tensor) -> Tensor:
        return F.conv2d(self.network.feature_map(images), self.linear.weight[:, :, None, None], self.linear.bias)

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.linear(self.network(images))
        return features

    def chain(self) -> list[nn.Module]:
        return [*self.network.chain(), self.linear]


NETWORKS: dict[str, Callable[..., Backbone]] = {
    "resnet10": partial(ResNet, 10),
    "resnet18": partial(ResNet, 18),
    "resnet34": partial(ResNet, 34),
    "wrn-28-2": partial(WideResNet, 28, 2),
    "wrn-28-8": partial(WideResNet, 28, 8),
    "wrn-37-2": partial(WideResNet, 37, 2, groups=4, first_stride=2),
    "whitened-patches": WhitenedPatchesNet,
    **{name: partial(EfficientNetLite, name) for name in SCALES},
}
