"""Searches a run for images that resemble a given image.

Shapes: N images, D feature width.
"""

from pathlib import Path

import numpy as np
import torch

from spice.data.decode import decode
from spice.data.images import InMemory
from spice.data.problems import BadImageError
from spice.errors import UserError
from spice.models.precomputed import NoEncoder
from spice.runs import open_result
from spice.runs.artifacts import MODEL
from spice.stages.encode import encode_plain
from spice.stages.model import TrainedModel


class ImageSearch:
    """Searches the images of a run with its encoder, which is loaded on first use."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._loaded: tuple[str, TrainedModel] | None = None

    def nearest(self, content: bytes, count: int) -> list[tuple[int, float]]:
        """The rows of the `count` most similar images, and their cosine similarities, for an image file's bytes."""
        result = open_result(self._run)
        if self._loaded is None or self._loaded[0] != result.name:
            self._loaded = result.name, TrainedModel.load(result.need(MODEL), device="cpu")
        encoder = self._loaded[1].encoder
        if isinstance(encoder, NoEncoder):
            raise UserError("this run was made from feature vectors and has no encoder, so it cannot search by image")
        try:
            pixels = decode(content, encoder.size).pixels
        except BadImageError as error:
            raise UserError(f"cannot read the example image ({error})") from None
        if encoder.channels < len(pixels):
            pixels = pixels.mean(axis=0, keepdims=True).round().astype(np.uint8)
        feature = encode_plain(encoder, InMemory(torch.from_numpy(pixels)[None]))[0].numpy()  # (D,)
        features = result.answer_features
        lengths = np.linalg.norm(features, axis=1) * float(np.linalg.norm(feature))
        similarity = (features @ feature) / np.maximum(lengths, 1e-12)  # (N,)
        best = np.argsort(-similarity, kind="stable")[:count]
        return [(int(row), float(similarity[row])) for row in best]
