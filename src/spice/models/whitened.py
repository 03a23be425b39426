"""A network for tiny images and CPUs that starts from whitened patches: a feature model in minutes (for paper III-A).

After Page (2019) and Jordan (2024), who train such networks on CIFAR-10 in seconds on a GPU. Its first layer is not
learned but computed from the images: it takes the correlation out of neighboring pixels, as in Coates and Ng (2011).
Shapes: B images, C channels, n = 9 C numbers in a patch of 3 x 3 pixels.
"""

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spice.models.backbone import Backbone, Pool, initialize_convolutions_

PATCH = 3
# Components of a patch that are kept, for each channel of the images: the smooth ones. What is left is mostly noise.
COMPONENTS = 4
# Directions in which patches vary by less than this share of the largest variance are noise, and are not blown up.
FLOOR = 5e-4


class WhitenedNet(Backbone):
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
        """Compute the first layer from normalized images (B, C, S, S): their patches' components, and the negatives."""
        patches = F.unfold(images, PATCH).transpose(1, 2).flatten(0, 1).double()  # (B * places, n)
        variances, directions = torch.linalg.eigh(patches.T.cov())  # (n,), (n, n) in columns
        largest = variances[-1].clamp(min=1e-6)  # images of a single color have none
        scale = (variances.clamp(min=0.0) + FLOOR * largest).rsqrt()
        kept = (directions * scale).T[-(len(self.whitening.weight) // 2) :]  # eigh sorts by variance, rising
        filters = kept.reshape(-1, images.shape[1], PATCH, PATCH)
        self.whitening.weight.copy_(torch.cat([filters, -filters]))

    def feature_map(self, images: Tensor) -> Tensor:
        maps: Tensor = self.blocks(F.relu(self.whitening(images)))
        return maps  # (B, D, S / 8, S / 8)

    def chain(self) -> list[nn.Module]:
        return [nn.Sequential(self.whitening, nn.ReLU()), *self.blocks, Pool()]


class Block(nn.Module):
    """Two 3x3 convolutions, the first with a pool, which gives as large a map as a stride and sees more."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)

    def forward(self, maps: Tensor) -> Tensor:
        half = F.relu(self.norm1(F.max_pool2d(self.conv1(maps), 2)))
        return F.relu(self.norm2(self.conv2(half)))
