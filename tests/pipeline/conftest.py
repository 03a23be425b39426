"""What tests of the pipeline share."""

import pytest
import torch

from spice.models.encoders import TorchEncoder


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images the encoder was given, call by call."""
    counts: list[int] = []
    encode = TorchEncoder.encode

    def counting(self: TorchEncoder, images: torch.Tensor) -> torch.Tensor:
        counts.append(len(images))
        return encode(self, images)

    monkeypatch.setattr(TorchEncoder, "encode", counting)
    return counts
