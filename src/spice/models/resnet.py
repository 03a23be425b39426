"""ResNet-18 and -34 with the paper's stems, and narrower, shallower ones for tiny images and CPUs (paper III-A, IV).

Submodules carry the names of torchvision's ResNet, so that weights published for it load unchanged.
"""

from typing import Literal, get_args

import torch.nn.functional as F
from torch import Tensor, nn

from spice.models.backbone import Backbone, Pool, initialize_convolutions_

Stem = Literal["imagenet", "pool", "plain"]
STEMS: tuple[Stem, ...] = get_args(Stem)

# Blocks in each of the four groups. Depth 10 is ours, for CPUs; the others are He et al.'s.
BLOCKS = {10: (1, 1, 1, 1), 18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}


def resnet(depth: int, *, stem: Stem = "imagenet", width: int = 64, channels: int = 3) -> "ResNet":
    """A ResNet of 10, 18 or 34 layers; features are 8 * `width` wide (512 in the paper)."""
    if depth not in BLOCKS:
        raise ValueError(f"there is no ResNet of depth {depth}; choose one of {', '.join(map(str, BLOCKS))}")
    if stem not in STEMS:
        raise ValueError(f"there is no stem {stem!r}; choose one of {', '.join(STEMS)}")
    return ResNet(BLOCKS[depth], stem=stem, width=width, channels=channels)


def stem_for(size: int) -> Stem:
    """The paper's stem for this image size: plain at 32 px, pool at 64 and 96, ImageNet's at 224."""
    if size <= 40:
        return "plain"
    return "pool" if size <= 128 else "imagenet"


class ResNet(Backbone):
    """Four groups of basic blocks after a stem: 7x7 with pool, 3x3 with pool, or 3x3 alone."""

    def __init__(self, blocks: tuple[int, ...], *, stem: Stem, width: int, channels: int) -> None:
        super().__init__()
        self.conv1 = (
            nn.Conv2d(channels, width, 7, stride=2, padding=3, bias=False)
            if stem == "imagenet"
            else nn.Conv2d(channels, width, 3, padding=1, bias=False)
        )
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = _pool(stem)
        self.layer1 = _group(width, width, blocks[0], stride=1)
        self.layer2 = _group(width, width * 2, blocks[1], stride=2)
        self.layer3 = _group(width * 2, width * 4, blocks[2], stride=2)
        self.layer4 = _group(width * 4, width * 8, blocks[3], stride=2)
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
        self.downsample = (
            nn.Identity()
            if stride == 1 and width_in == width
            else nn.Sequential(nn.Conv2d(width_in, width, 1, stride=stride, bias=False), nn.BatchNorm2d(width))
        )

    def forward(self, maps: Tensor) -> Tensor:
        inner = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(maps)))))
        return F.relu(inner + self.downsample(maps))


def _pool(stem: Stem) -> nn.Module:
    if stem == "imagenet":
        return nn.MaxPool2d(3, stride=2, padding=1)
    # Padding by one makes the map of a 96 px image 49, and in the end 7x7, as in the authors' code.
    return nn.MaxPool2d(2, stride=2, padding=1) if stem == "pool" else nn.Identity()


def _group(width_in: int, width: int, count: int, *, stride: int) -> nn.Sequential:
    first = BasicBlock(width_in, width, stride=stride)
    return nn.Sequential(first, *(BasicBlock(width, width, stride=1) for _ in range(count - 1)))
