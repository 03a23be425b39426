"""Pictures to test views on: generated ones, and real photos if they are available."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor


def generated(count: int, size: int) -> Tensor:
    """Smooth shapes with noise, edges, a flat picture and a nearly flat one: uint8 (count, 3, size, size)."""
    source = torch.Generator().manual_seed(7)
    coarse = F.interpolate(torch.rand(count, 3, 6, 6, generator=source), size=(size, size), mode="bicubic")
    pictures = (coarse + 0.1 * torch.randn(count, 3, size, size, generator=source)).clamp(0.0, 1.0)
    pictures[0] = 0.5
    pictures[1] = 0.2 + 0.1 * pictures[1]
    pictures[2, :, :, size // 2 :] = 1.0
    return (pictures * 255.0).to(torch.uint8)


def real(archive: Path, count: int) -> Tensor:
    """The first photos of the archive, uint8 (count, 3, 160, 160)."""
    photos = []
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member)
            if file is not None and member.name.endswith(".JPEG"):
                photos.append(np.array(Image.open(io.BytesIO(file.read())).convert("RGB")))
            if len(photos) == count:
                break
    return torch.from_numpy(np.stack(photos)).permute(0, 3, 1, 2).contiguous()


@pytest.fixture(scope="session", params=["generated", "real"])
def photos(request: pytest.FixtureRequest) -> Tensor:
    """uint8 (12, 3, S, S)."""
    if request.param == "generated":
        return generated(12, 96)
    shared_data: Path = request.getfixturevalue("shared_data")
    return real(shared_data / "imagenette.tar", 12)


@pytest.fixture
def drawn() -> Tensor:
    """Generated pictures of the size of CIFAR images: uint8 (16, 3, 32, 32)."""
    return generated(16, 32)
