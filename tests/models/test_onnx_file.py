"""Networks that come as ONNX files from anywhere: exported here by torch, opened as a stranger's."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from spice.errors import UserError
from spice.models.encoders import load_encoder
from spice.models.frozen import IMAGES_PER_CALL
from spice.settings import IMAGENET, Normalization


class Network(nn.Module):
    """Pooled features, or the map, or both."""

    def __init__(self, outputs: str, channels: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 6, 3, stride=4)
        self.outputs = outputs

    def forward(self, images: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        maps: Tensor = self.conv(images).relu()
        pooled = maps.amax(dim=(2, 3))
        return {"pooled": pooled, "map": maps, "both": (maps, pooled), "tokens": maps.flatten(start_dim=2)}[
            self.outputs
        ]  # type: ignore[return-value]


def exported(path: Path, model: nn.Module, *shape: int, free: tuple[int, ...] = (0,)) -> Path:
    names = ["out0", "out1"] if getattr(model, "outputs", "") == "both" else ["out0"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        axes = {"input": {axis: f"axis{axis}" for axis in free}} | {name: {0: "axis0"} for name in names if 0 in free}
        torch.onnx.export(
            model.eval(),
            (torch.zeros(*shape),),
            str(path),
            dynamo=False,
            input_names=["input"],
            output_names=names,
            dynamic_axes=axes,
        )
    return path


def test_pooled_features_and_map_are_found_by_their_shapes(tmp_path: Path) -> None:
    model = Network("both")
    encoder = load_encoder(f"onnx:{exported(tmp_path / 'both.onnx', model, 2, 3, 32, 32)}")
    assert (encoder.size, encoder.channels, encoder.features, encoder.normalization) == (32, 3, 6, IMAGENET)
    assert encoder.module is None
    images = torch.randn(5, 3, 32, 32)
    with torch.no_grad():
        maps, pooled = model(images)
    torch.testing.assert_close(encoder.encode(images), pooled)
    torch.testing.assert_close(encoder.feature_map(images), maps)


def test_a_file_that_gives_a_map_only_is_pooled_by_its_mean(tmp_path: Path) -> None:
    model = Network("map", channels=1)
    encoder = load_encoder(f"onnx:{exported(tmp_path / 'map.onnx', model, 2, 1, 32, 32)}")
    images = torch.randn(3, 1, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(encoder.encode(images), model(images).mean(dim=(2, 3)))
    assert (encoder.channels, len(encoder.normalization.mean)) == (1, 1)


@pytest.mark.parametrize("fixed", [2, IMAGES_PER_CALL + 1])
def test_a_file_made_for_a_fixed_number_of_images_takes_any_number(fixed: int, tmp_path: Path) -> None:
    model = Network("pooled")
    encoder = load_encoder(f"onnx:{exported(tmp_path / 'fixed.onnx', model, fixed, 3, 32, 32, free=())}")
    images = torch.randn(5, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(encoder.encode(images), model(images))


def test_a_free_size_is_chosen_by_the_caller(tmp_path: Path) -> None:
    path = exported(tmp_path / "free.onnx", Network("pooled"), 2, 3, 32, 32, free=(0, 2, 3))
    usual = Normalization(mean=(0.5,) * 3, std=(0.5,) * 3)
    encoder = load_encoder(f"onnx:{path}", size=48, normalization=usual)
    assert (encoder.size, encoder.normalization) == (48, usual)
    assert encoder.encode(torch.zeros(1, 3, 48, 48)).shape == (1, 6)
    assert load_encoder(f"onnx:{path}").size == 224


def test_without_a_map_there_is_none_and_it_is_said(tmp_path: Path) -> None:
    encoder = load_encoder(f"onnx:{exported(tmp_path / 'pooled.onnx', Network('pooled'), 2, 3, 32, 32)}")
    with pytest.raises(UserError, match=r"pooled.onnx has no output of shape"):
        encoder.feature_map(torch.zeros(1, 3, 32, 32))


def test_images_of_another_shape_are_refused_before_the_runtime_sees_them(tmp_path: Path) -> None:
    encoder = load_encoder(f"onnx:{exported(tmp_path / 'pooled.onnx', Network('pooled'), 2, 3, 32, 32)}")
    with pytest.raises(ValueError, match=r"takes images of shape \(B, 3, 32, 32\), not \(1, 1, 32, 32\)"):
        encoder.encode(torch.zeros(1, 1, 32, 32))


def test_files_that_cannot_serve_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no network at all")
    exported(tmp_path / "tokens.onnx", Network("tokens"), 2, 3, 32, 32)
    exported(tmp_path / "flat.onnx", nn.Linear(8, 4), 2, 8)
    exported(tmp_path / "oblong.onnx", Network("pooled"), 2, 3, 32, 48)
    exported(tmp_path / "fixed.onnx", Network("pooled"), 2, 3, 32, 32)
    linear = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 4))
    exported(tmp_path / "linear.onnx", linear, 2, 3, 32, 32, free=(0, 2, 3))
    for name, size, words in (
        ("nothing", None, r"there is no file .*nothing.onnx"),
        ("text", None, r"text.onnx cannot be opened as an ONNX file"),
        ("tokens", None, r"output must have shape \(images, features\)"),
        ("flat", None, r"takes input of shape \['axis0', 8\]; it must be"),
        ("oblong", None, r"takes images of 32 x 48 pixels; they must be square"),
        ("fixed", 64, r"takes images of 32 px only, not 64 px"),
        ("linear", None, r"cannot encode images of 224 px \(.*\); set its size with --size"),
    ):
        with pytest.raises(UserError, match=words) as caught:
            load_encoder(f"onnx:{tmp_path / f'{name}.onnx'}", size=size)
        assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.name == "nt", reason="HOME is where other systems look")
def test_opening_a_network_sends_nothing_to_the_makers_of_the_runtime(tmp_path: Path) -> None:
    """ONNX Runtime creates a device number and a database of events to send as soon as a network is opened."""
    file = exported(tmp_path / "net.onnx", Network("pooled"), 1, 3, 8, 8)
    code = "import sys; from spice.models.encoders import load_encoder; load_encoder(sys.argv[1], size=8)"
    (tmp_path / "home").mkdir()
    usual = {
        name: value for name, value in os.environ.items() if name not in ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")
    }
    home = usual | {"HOME": str(tmp_path / "home")}
    subprocess.run([sys.executable, "-c", code, f"onnx:{file}"], env=home, check=True)
    assert list((tmp_path / "home").rglob("*")) == []
