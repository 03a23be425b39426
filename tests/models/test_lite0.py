"""The encoder in the box: EfficientNet-Lite0 with its published weights, on photos of classes it knows."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from spice.models.efficientnet import ConvNorm, published_lite0
from spice.models.encoders import load_encoder
from spice.settings import Normalization

# Where ImageNet's 1000 classes have the ten of Imagenette.
CLASSES = {
    "tench": 0,
    "english_springer": 217,
    "cassette_player": 482,
    "chain_saw": 491,
    "church": 497,
    "french_horn": 566,
    "garbage_truck": 569,
    "gas_pump": 571,
    "golf_ball": 574,
    "parachute": 701,
}
PER_CLASS = 30


def test_lite0_knows_what_it_is() -> None:
    encoder = load_encoder("lite0")
    assert (encoder.name, encoder.size, encoder.channels, encoder.features) == ("lite0", 160, 3, 1280)
    assert not any(module.training for module in encoder.module.modules()) if encoder.module else False
    x = torch.tensor([0.0, 127.0, 255.0])  # (x - 127) / 128
    mean, std = encoder.normalization.mean[0], encoder.normalization.std[0]
    torch.testing.assert_close((x / 255 - mean) / std, (x - 127) / 128)


@pytest.mark.parametrize(
    ("side", "kernel", "expected"), [(8, 3, (0, 1)), (8, 5, (1, 2)), (7, 3, (1, 1)), (7, 5, (2, 2))]
)
def test_padding_is_tensorflows(side: int, kernel: int, expected: tuple[int, int]) -> None:
    layer = ConvNorm(1, 1, kernel=kernel, stride=2).eval()
    image = torch.randn(1, 1, side, side)
    by_hand = F.conv2d(F.pad(image, (*expected, *expected)), layer.conv.weight, stride=2) / (1 + 1e-3) ** 0.5
    assert by_hand.shape[2] == -(-side // 2)
    torch.testing.assert_close(layer(image), by_hand)


@pytest.mark.slow
def test_lite0_names_photos_of_classes_it_was_trained_on(shared_data: Path) -> None:
    encoder = load_encoder("lite0")
    pixels, labels = photos(shared_data / "imagenette.tar")
    weights = published_lite0()
    classifier = nn.Linear(1280, 1000)
    classifier.load_state_dict({"weight": weights["_fc.weight"], "bias": weights["_fc.bias"]})
    features = torch.cat([encoder.encode(normalized(part, encoder.normalization)) for part in torch.split(pixels, 50)])
    top1 = (classifier(features).argmax(dim=1) == labels).float().mean().item()
    assert top1 > 0.55


def normalized(pixels: Tensor, normalization: Normalization) -> Tensor:
    mean, std = (torch.tensor(value).view(3, 1, 1) for value in (normalization.mean, normalization.std))
    return (pixels / 255 - mean) / std


def photos(archive: Path) -> tuple[Tensor, Tensor]:
    """The first of each class's held-out photos, 160 px as they are."""
    found: dict[str, list[Tensor]] = {name: [] for name in CLASSES}
    with tarfile.open(archive) as tar:
        for member in tar:
            _, split, name, *_ = [*member.name.split("/"), "", ""]
            if split == "val" and name in found and member.isfile() and len(found[name]) < PER_CLASS:
                file = tar.extractfile(member)
                assert file is not None
                image = np.array(Image.open(io.BytesIO(file.read())).convert("RGB"))
                found[name].append(torch.from_numpy(image).permute(2, 0, 1))
    labels = [CLASSES[name] for name in found for _ in range(PER_CLASS)]
    return torch.stack([image for images in found.values() for image in images]), torch.tensor(labels)
