"""Encoder and head as one ONNX file, compared with torch."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from spice.data.images import InMemory
from spice.errors import UserError
from spice.models.encoders import load_encoder
from spice.models.heads import Head
from spice.models.precomputed import NoEncoder
from spice.stages.bank import build_bank
from spice.stages.encode import encode_plain
from spice.stages.model import TrainedModel
from spice.stages.onnx_export import export_onnx


def test_the_exported_file_gives_the_models_probabilities(tmp_path: Path) -> None:
    torch.manual_seed(0)
    pixels = torch.randint(0, 256, (7, 3, 64, 64), generator=torch.Generator().manual_seed(1)).byte()
    encoder, pictures = load_encoder("lite0", size=64), InMemory(pixels)
    features = encode_plain(encoder, pictures)
    head = Head(encoder.features, 3)
    with torch.no_grad():
        head.out.weight *= 50  # probabilities far from one third, so that a wrong preprocessing would show
    bank = build_bank(features, head(features).argmax(dim=1), clusters=3, neighbors=2, seed=0)
    model = TrainedModel(encoder, head, bank, threshold=0.5)
    assert export_onnx(model, tmp_path / "model.onnx") < 1e-4
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    found = session.run(None, {"images": pictures.pixels.numpy()})[0]
    expected = model.predict_features(encode_plain(model.encoder, pictures)).probabilities
    assert expected.std() > 0.1
    np.testing.assert_allclose(found, expected, atol=1e-3)
    about = {entry.key: entry.value for entry in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert about["clusters"] == "3"
    assert "64 x 64" in about["input"]


def test_an_encoder_that_is_not_a_network_is_refused_with_a_message(tmp_path: Path) -> None:
    features = torch.rand(6, 4)
    bank = build_bank(features, torch.zeros(6, dtype=torch.long), clusters=2, neighbors=2, seed=0)
    model = TrainedModel(NoEncoder(4), Head(4, 2), bank, threshold=0.5)
    with pytest.raises(UserError, match="none is not a torch network"):
        export_onnx(model, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()
