"""timm's models, where timm and torchvision are installed; a clear line where they are not."""

import subprocess
import sys

import pytest
import torch

from spice.errors import UserError
from spice.models.encoders import TorchEncoder, load_encoder
from spice.models.timm_models import load_timm


def timm_works() -> bool:
    return subprocess.run([sys.executable, "-c", "import timm"], check=False, capture_output=True).returncode == 0


WORKS = timm_works()


@pytest.mark.skipif(WORKS, reason="timm is installed here")
def test_without_timm_it_is_said_what_to_install() -> None:
    with pytest.raises(
        UserError, match=r"timm: encoders need timm and a matching torchvision: pip install timm"
    ) as caught:
        load_encoder("timm:resnet18")
    assert "\n" not in str(caught.value)


def test_a_torchvision_that_does_not_fit_torch_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        """Fails as a torchvision of another build does."""

        def find_spec(self, name: str, *_: object) -> None:
            if name == "timm":
                raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(UserError, match=r"matching torchvision.*nms does not exist"):
        load_encoder("timm:resnet18")


@pytest.mark.skipif(not WORKS, reason="timm and torchvision are not installed here")
@pytest.mark.parametrize(
    ("name", "size", "side"),
    [("resnet10t", 64, 2), ("vit_tiny_patch16_224", 64, 4), ("mobilenetv3_small_050", 64, 2)],
)
def test_timms_pooled_features_and_map(name: str, size: int, side: int) -> None:
    pretrained = load_timm(name, size=size, pretrained=False)
    encoder = TorchEncoder(name, pretrained.network, pretrained.normalization, size=pretrained.size)
    images = torch.randn(3, 3, size, size)
    with torch.no_grad():
        expected = pretrained.network(images)
    assert expected.shape == (3, encoder.features)
    torch.testing.assert_close(encoder.encode(images), expected, atol=1e-4, rtol=1e-4)
    assert encoder.feature_map(images).shape[2:] == (side, side)


@pytest.mark.skipif(not WORKS, reason="timm and torchvision are not installed here")
def test_an_unknown_name_is_refused_in_words() -> None:
    with pytest.raises(UserError, match=r"timm:no_such_model cannot be loaded"):
        load_encoder("timm:no_such_model")
