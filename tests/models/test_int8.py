"""EfficientNet-Lite in 8-bit integers gives nearly the features of floats, and is chosen where it is faster."""

import platform
import tarfile
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from spice.augment import Plain
from spice.data.decode import decode
from spice.errors import UserError
from spice.models import precision
from spice.models.encoders import Encoder, TorchEncoder, load_encoder, precision_of, with_precision
from spice.models.networks import network
from spice.models.precision import faster_precision
from spice.settings import IMAGENET, AugmentSettings

SIZE = 96


def _sums_overflow() -> bool:
    """Whether this processor adds products of bytes in 16 bits, where they overflow: x86 without VNNI."""
    cpu = Path("/proc/cpuinfo")
    return platform.machine() in ("x86_64", "AMD64") and not (cpu.exists() and "vnni" in cpu.read_text())


OVERFLOW = _sums_overflow()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPICE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def photos(shared_data: Path) -> Tensor:
    """A few normalized photos: (B, 3, S, S)."""
    with tarfile.open(shared_data / "trash.tar") as archive:
        files = [archive.extractfile(member) for member in archive.getmembers() if member.isfile()][::100]
        pixels = [torch.from_numpy(decode(file.read(), SIZE).pixels) for file in files if file is not None]
    encoder = load_encoder("lite0", size=SIZE)
    plain = Plain(AugmentSettings(), size=SIZE, normalization=encoder.normalization)
    return plain(torch.stack([one.expand(3, -1, -1) for one in pixels]))


@pytest.mark.skipif(OVERFLOW, reason="this processor has no VNNI: sums of 8-bit products overflow")
def test_features_of_photos_are_nearly_those_of_floats(photos: Tensor, cache: Path) -> None:
    floats = load_encoder("lite0", size=SIZE)
    integers = with_precision(floats, "int8")
    expected, found = floats.encode(photos), integers.encode(photos)
    assert not found.equal(expected)
    cosine = F.cosine_similarity(expected, found)
    assert cosine.mean() > 0.97
    # Beyond what all photos have in common, too.
    center = expected.mean(dim=0)
    assert F.cosine_similarity(expected - center, found - center).mean() > 0.93
    assert len(list(cache.iterdir())) == 2  # each has a file of its own
    assert with_precision(floats, "int8").encode(photos).equal(found)
    assert (precision_of(floats), precision_of(integers)) == ("float32", "int8")
    torch.testing.assert_close(integers.feature_map(photos).mean(dim=(2, 3)), found)


def test_integers_are_computed_in_integers(photos: Tensor) -> None:
    encoder = with_precision(load_encoder("lite0", size=SIZE), "int8")
    # The mean of a map of 3 x 3 places with 256 values each is one of few numbers.
    scale = encoder.encode(photos) * 9 / (6 / 255)
    torch.testing.assert_close(scale, scale.round(), atol=0.02, rtol=0)


@pytest.mark.parametrize(
    ("floats", "integers", "chosen"), [(2.0, 1.0, "int8"), (1.2, 1.0, "float32"), (1.0, 2.0, "float32")]
)
def test_integers_are_chosen_where_they_are_faster(
    floats: float, integers: float, chosen: str, photos: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seconds(encoder: TorchEncoder, _: Tensor) -> float:
        return integers if encoder.precision == "int8" else floats

    monkeypatch.setattr(precision, "_seconds", seconds)
    threads = torch.get_num_threads()
    expected = "float32" if OVERFLOW else chosen  # features that overflowed are too far from those of floats
    assert faster_precision(load_encoder("lite0", size=SIZE), photos[:4]) == expected
    assert torch.get_num_threads() == threads


def test_integers_that_give_other_features_are_not_chosen(photos: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "_seconds", lambda encoder, _: 1.0 if encoder.precision == "int8" else 9.0)
    monkeypatch.setattr(precision, "LEAST_COSINE", 0.9999)
    assert faster_precision(load_encoder("lite0", size=SIZE), photos[:4]) == "float32"


def test_other_networks_compute_in_floats() -> None:
    other: Encoder = TorchEncoder("resnet10", network("resnet10", width=4), IMAGENET, size=32)
    assert faster_precision(other, torch.zeros(2, 3, 32, 32)) == "float32"
    with pytest.raises(UserError, match=r"resnet10 does not support 8-bit integers"):
        with_precision(other, "int8")
