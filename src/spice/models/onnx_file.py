"""Any network in an ONNX file as an encoder (paper III-A)."""

import hashlib
from pathlib import Path

import torch
from torch import Tensor

from spice.errors import UserError, one_line
from spice.models.backbone import check_shape
from spice.models.frozen import Session
from spice.settings import IMAGENET, Normalization


class OnnxEncoder:
    """Takes normalized images (B, C, S, S); an output (B, D) is used as it is, (B, D, h, w) is averaged."""

    module = None

    def __init__(self, path: Path, size: int | None = None, normalization: Normalization | None = None) -> None:
        self.name, self._path = f"onnx:{path}", path
        self._session = _open(path)
        self.channels, self.size = _channels_and_size(path, self._session, size)
        usual = IMAGENET if self.channels == 3 else Normalization(mean=(0.5,), std=(0.5,))
        self.normalization = normalization or usual
        shapes = {output.name: len(output.shape or ()) for output in self._session.outputs}
        self._pooled = next((name for name, ndim in shapes.items() if ndim == 2), None)
        self._map = next((name for name, ndim in shapes.items() if ndim == 4), None)
        if self._pooled is None and self._map is None:
            raise UserError(
                f"{path} gives {shapes}; its output must have shape (images, features) or (images, features, h, w)"
            )
        try:
            self.features = self.encode(torch.zeros(1, self.channels, self.size, self.size)).shape[1]
        # The runtime's errors have a class per cause and no common one but Exception.
        except Exception as error:
            raise UserError(
                f"{path} cannot encode images of {self.size} px ({one_line(error)}); set its size with --size"
            ) from error

    def encode(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> (B, D)."""
        if self._pooled is not None:
            return self._run(images, self._pooled)
        return self.feature_map(images).mean(dim=(2, 3))

    def feature_map(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> (B, D, h, w), if the file has such an output."""
        if self._map is None:
            raise UserError(f"{self.name} has no output of shape (images, features, h, w), so there is no feature map")
        return self._run(images, self._map)

    def fingerprint(self) -> str:
        return hashlib.blake2b(self._path.read_bytes(), digest_size=16).hexdigest()

    def _run(self, images: Tensor, output: str) -> Tensor:
        check_shape(images, self.name, self.channels, self.size)
        return self._session.run(images, output)


def _open(path: Path) -> Session:
    if not path.is_file():
        raise UserError(f"there is no file {path} to load a network from")
    try:
        session = Session(path)
    # The runtime's errors have a class per cause and no common one but Exception.
    except Exception as error:
        raise UserError(f"{path} cannot be opened as an ONNX file: {one_line(error)}") from error
    if session.input.type != "tensor(float)":
        raise UserError(f"{path} takes {session.input.type}; it must take float32 images")
    return session


def _channels_and_size(path: Path, session: Session, size: int | None) -> tuple[int, int]:
    shape = list(session.input.shape)
    if len(shape) != 4 or shape[1] not in (1, 3):
        raise UserError(f"{path} takes input of shape {shape}; it must be (images, 1 or 3 channels, height, width)")
    height, width = (value if isinstance(value, int) else None for value in shape[2:])
    if height != width:
        raise UserError(f"{path} takes images of {shape[2]} x {shape[3]} pixels; they must be square")
    if height is not None and size not in (None, height):
        raise UserError(f"{path} takes images of {height} px only, not {size} px")
    return shape[1], height or size or 224
