"""Wide residual networks: the backbones of joint training on CIFAR and STL-10 (paper III-C, after FixMatch)."""

import torch.nn.functional as F
from torch import Tensor, nn

from spice.models.backbone import Backbone, Pool, initialize_convolutions_

# FixMatch's leaky ReLU.
SLOPE = 0.1


def wide_resnet(
    depth: int,
    widen: int,
    *,
    groups: int = 3,
    first_stride: int = 1,
    width: int = 16,
    channels: int = 3,
) -> "WideResNet":
    """WRN-`depth`-`widen`: 28-2 and 28-8 in three groups (32 px), 37-2 in four, the first with stride 2 (STL-10).

    Each group has n blocks of two layers; with the stem and one shortcut per group, depth = 2 n groups + groups + 1.
    The momentum of batch norm is torch's 0.1; FixMatch's 0.001 suits its 2^20 steps only.
    """
    blocks, rest = divmod(depth - groups - 1, 2 * groups)
    if rest or blocks < 1:
        raise ValueError(f"a WideResNet of {groups} groups has depth {groups + 1} + {2 * groups} n, got {depth}")
    return WideResNet(
        blocks,
        widths=tuple(width * widen * 2**group for group in range(groups)),
        stem=width,
        channels=channels,
        first_stride=first_stride,
    )


class WideResNet(Backbone):
    """A 3x3 stem, groups of pre-activated blocks that double the width, and a last activation."""

    def __init__(self, blocks: int, *, widths: tuple[int, ...], stem: int, channels: int, first_stride: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(channels, stem, 3, padding=1, bias=False)
        layers: list[nn.Module] = []
        width_in = stem
        for group, width in enumerate(widths):
            for block in range(blocks):
                stride = 1 if block else (2 if group else first_stride)
                layers.append(PreActivatedBlock(width_in, width, stride=stride, activate_all=group == 0 and block == 0))
                width_in = width
        self.blocks = nn.Sequential(*layers)
        self.norm = nn.BatchNorm2d(width_in)
        self.features = width_in
        initialize_convolutions_(self)

    def feature_map(self, images: Tensor) -> Tensor:
        return F.leaky_relu(self.norm(self.blocks(self.stem(images))), SLOPE)  # (B, D, h, w)

    def chain(self) -> list[nn.Module]:
        return [self.stem, *self.blocks, nn.Sequential(self.norm, nn.LeakyReLU(SLOPE)), Pool()]


class PreActivatedBlock(nn.Module):
    """Norm, activation, convolution, twice. The shortcut skips the first activation, except in the first block."""

    def __init__(self, width_in: int, width: int, *, stride: int, activate_all: bool) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(width_in)
        self.conv1 = nn.Conv2d(width_in, width, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.shortcut = (
            nn.Identity()
            if stride == 1 and width_in == width
            else nn.Conv2d(width_in, width, 1, stride=stride, bias=False)
        )
        self.activate_all = activate_all

    def forward(self, maps: Tensor) -> Tensor:
        active = F.leaky_relu(self.norm1(maps), SLOPE)
        inner: Tensor = self.conv2(F.leaky_relu(self.norm2(self.conv1(active)), SLOPE))
        shortcut: Tensor = self.shortcut(active if self.activate_all else maps)
        return inner + shortcut
