"""Adding an encoder takes one file: a class and a registration, as here."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from spice.data.images import InMemory
from spice.engine.run import Run
from spice.errors import UserError
from spice.models import encoders
from spice.models.encoders import Encoder, Options, load_encoder, register_encoder
from spice.settings import IMAGENET, ViewSettings
from spice.stages.views import encode_features, encode_views


class MeanColor:
    """`colors:GRID`: the mean color of each cell of a grid."""

    channels, module = 3, None

    def __init__(self, grid: str, options: Options) -> None:
        self.name, self.grid = f"colors:{grid}", int(grid)
        self.size = options.size or 32
        self.normalization = options.normalization or IMAGENET
        self.features = 3 * self.grid**2

    def encode(self, images: Tensor) -> Tensor:
        return self.feature_map(images).flatten(start_dim=1)

    def feature_map(self, images: Tensor) -> Tensor:
        return torch.nn.functional.adaptive_avg_pool2d(images, self.grid)

    def fingerprint(self) -> str:
        return hashlib.sha256(self.name.encode()).hexdigest()


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "_LOADERS", dict(encoders._LOADERS))
    register_encoder("colors", MeanColor)


def test_a_new_encoder_is_loaded_by_name() -> None:
    encoder: Encoder = load_encoder("colors:2", size=24)
    assert (encoder.name, encoder.size, encoder.features) == ("colors:2", 24, 12)
    assert encoder.fingerprint() != load_encoder("colors:3").fingerprint()
    with pytest.raises(UserError, match="unknown encoder 'colors:'"):
        load_encoder("colors:")


def test_a_new_encoder_encodes_views(tmp_path: Path) -> None:
    pixels = torch.zeros(70, 3, 40, 40, dtype=torch.uint8)
    pixels[::2, 0] = 255  # every second image is red
    encoder = load_encoder("colors:2")
    features = encode_features(InMemory(pixels), encoder, tmp_path / "features.npy", Run(folder=tmp_path))
    views = encode_views(InMemory(pixels), features, encoder, ViewSettings(), Run(folder=tmp_path))
    assert views.plain.shape == (70, 12)
    assert views.weak.shape == (1, 70, 12)
    mean, std = encoder.normalization.mean[0], encoder.normalization.std[0]
    np.testing.assert_allclose(views.plain[0, :4], (1 - mean) / std, rtol=1e-5)  # red in all four cells
    np.testing.assert_allclose(views.plain[1, :4], -mean / std, rtol=1e-5)
