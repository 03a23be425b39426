"""A small network whose first layer whitens patches of pixels: trained in minutes on a CPU (for paper III-A).

After Page (2019) and Jordan (2024), who train such networks on CIFAR-10 in seconds on a GPU. The first layer is not
learned but computed from the images: it removes the correlation between neighboring pixels, as in Coates and Ng (2011).
Not to be confused with `partial_whitening`, which acts on the features of any trained network.
Shapes: B images, C channels, n = 9 C numbers in a patch of 3 x 3 pixels.
"""

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spice.models.backbone import Backbone, Pool, initialize_convolutions_

PATCH = 3
# Components kept per channel of the images: the smooth ones. The rest is mostly noise.
COMPONENTS = 4
# Directions with less than this share of the largest variance are noise and are not amplified.
FLOOR = 5e-4


class WhitenedPatchesNet(Backbone):
    """Whitening, then three blocks that each halve the map: six convolutions, features 8 * `width` wide."""

    def __init__(self, *, width: int = 64, channels: int = 3) -> None:
        super().__init__()
        filters = 2 * COMPONENTS * channels
        self.whitening = nn.Conv2d(channels, filters, PATCH, padding=1, bias=False)
        widths = (filters, width, 4 * width, 8 * width)
        self.blocks = nn.Sequential(*(Block(*pair) for pair in itertools.pairwise(widths)))
        self.features = widths[-1]
        initialize_convolutions_(self)
        self.whitening.requires_grad_(False)

    @torch.no_grad()
    def prepare_(self, images: Tensor) -> None:
        """Compute the first layer from normalized images (B, C, S, S): their patches' components and the negatives."""
        patches = F.unfold(images, PATCH).transpose(1, 2).flatten(0, 1).double()  # (B * places, n)
        variances, directions = torch.linalg.eigh(patches.T.cov())  # (n,), (n, n) in columns
        largest = variances[-1].clamp(min=1e-6)  # images of one color have none
        scale = (variances.clamp(min=0.0) + FLOOR * largest).rsqrt()
        kept = (directions * scale).T[-(len(self.whitening.weight) // 2) :]  # eigh sorts by variance, ascending
        filters = kept.reshape(-1, images.shape[1], PATCH, PATCH)
        self.whitening.weight.copy_(torch.cat([filters, -filters]))

    def feature_map(self, images: Tensor) -> Tensor:
        maps: Tensor = self.blocks(F.relu(self.whitening(images)))
        return maps  # (B, D, S / 8, S / 8)

    def chain(self) -> list[nn.Module]:
        return [nn.Sequential(self.whitening, nn.ReLU()), *self.blocks, Pool()]


class Block(nn.Module):
    """Two 3x3 convolutions with a max pool between, which halves the map as a stride would, but sees all of it."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)

    def forward(self, maps: Tensor) -> Tensor:
        half = F.relu(self.norm1(F.max_pool2d(self.conv1(maps), 2)))
        return F.relu(self.norm2(self.conv2(half)))
