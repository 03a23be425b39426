"""Encoder and head as one ONNX file, for programs without Python: pixels in, probabilities out.

Shapes: B images, C channels, S pixels on a side, K clusters.
"""

from pathlib import Path

import onnx
import onnxruntime
import torch
from torch import Tensor, nn

from spice.errors import UserError
from spice.files import written_atomically
from spice.models.frozen import trace
from spice.models.heads import Head
from spice.settings import Normalization
from spice.stages.model import TrainedModel
from spice.version import __version__

TOLERANCE = 1e-4  # largest allowed difference of a probability between the file and torch


class PixelsToProbabilities(nn.Module):
    """The whole model, from a square image of S pixels to probabilities."""

    def __init__(self, encoder: nn.Module, head: Head, normalization: Normalization) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(normalization.mean).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(normalization.std).view(1, -1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """uint8 (B, C, S, S) -> (B, K)."""
        normalized = (images.float() / 255.0 - self.mean) / self.std
        logits: Tensor = self.head(self.encoder(normalized))
        return logits.softmax(dim=1)


def export_onnx(model: TrainedModel, path: Path) -> float:
    """Write the model to `path`. Returns the largest difference between its probabilities and those of torch."""
    encoder = model.encoder
    if encoder.module is None:
        raise UserError(f"{encoder.name} is not a torch network, so it cannot be exported")
    whole = PixelsToProbabilities(encoder.module, model.head, encoder.normalization).eval()
    images = _examples(encoder.channels, encoder.size)
    with written_atomically(path) as temporary:
        trace(whole, images[:2], temporary, output="probabilities")
        _describe(temporary, model)
        session = onnxruntime.InferenceSession(str(temporary), providers=["CPUExecutionProvider"])
        probs = torch.from_numpy(session.run(["probabilities"], {"images": images.numpy()})[0])
        with torch.no_grad():
            difference = float((probs - whole(images)).abs().max())
        if not difference <= TOLERANCE:  # also true for NaN
            raise UserError(
                f"{encoder.name} cannot be exported: its probabilities would differ by {difference:.1e}; use --as model"
            )
    return difference


def _examples(channels: int, size: int) -> Tensor:
    """Three different images: noise, plain gray and a gradient."""
    noise = torch.randint(0, 256, (1, channels, size, size), generator=torch.Generator().manual_seed(0))
    gray = torch.full((1, channels, size, size), 128)
    gradient = torch.linspace(0, 255, size).expand(1, channels, size, size)
    return torch.cat([noise, gray, gradient]).byte()


def _describe(path: Path, model: TrainedModel) -> None:
    content = onnx.load(path)
    about = {
        "spice": __version__,
        "encoder": model.encoder.name,
        "clusters": str(model.head.clusters),
        "input": f"uint8 RGB, the largest centered square of an image resized to {model.encoder.size} x "
        f"{model.encoder.size}, channels first",
    }
    for key, value in about.items():
        content.metadata_props.add(key=key, value=value)
    onnx.save(content, path)
