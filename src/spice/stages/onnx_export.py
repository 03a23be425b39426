"""Encoder and head as one ONNX file, for programs without Python: pixels in, probabilities out.

Shapes: B images, C channels, S pixels on a side, K clusters.
"""

import warnings
from pathlib import Path

import onnx
import onnxruntime
import torch
from torch import Tensor, nn

from spice.errors import UserError
from spice.files import written_atomically
from spice.models.heads import Head
from spice.settings import Normalization
from spice.stages.model import TrainedModel
from spice.version import __version__

TOLERANCE = 1e-4  # of a probability: the most by which the file may differ from torch


class PixelsToProbabilities(nn.Module):
    """The whole of what a model does to an image that has been cut to a square of S pixels."""

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
    """Write the model to `path`; returns by how much its probabilities differ from torch's at most."""
    encoder = model.encoder
    if encoder.module is None:
        raise UserError(f"{encoder.name} is not a network of torch and cannot be exported together with the head")
    whole = PixelsToProbabilities(encoder.module, model.head, encoder.normalization).eval()
    images = _examples(encoder.channels, encoder.size)
    with written_atomically(path) as temporary:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # the tracer's notes; the comparison below is what counts
            torch.onnx.export(
                whole,
                (images[:2],),
                str(temporary),
                input_names=["images"],
                output_names=["probabilities"],
                dynamic_axes={"images": {0: "batch"}, "probabilities": {0: "batch"}},
                dynamo=False,
            )
        _describe(temporary, model)
        difference = _difference(whole, temporary, images)
        if not difference <= TOLERANCE:  # written so that NaN is refused
            raise UserError(f"{encoder.name} cannot be exported: its probabilities would differ by {difference:.1e}")
    return difference


def _examples(channels: int, size: int) -> Tensor:
    """Noise, an even gray, and a slope: three images that no network takes for one another."""
    noise = torch.randint(0, 256, (1, channels, size, size), generator=torch.Generator().manual_seed(0))
    gray = torch.full((1, channels, size, size), 128)
    slope = torch.linspace(0, 255, size).expand(1, channels, size, size)
    return torch.cat([noise, gray, slope]).byte()


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


def _difference(whole: nn.Module, path: Path, images: Tensor) -> float:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = torch.from_numpy(session.run(["probabilities"], {"images": images.numpy()})[0])
    with torch.no_grad():
        expected = whole(images)
    return float((found - expected).abs().max())
