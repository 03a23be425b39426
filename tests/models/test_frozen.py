"""A frozen network on ONNX Runtime is the same network: exported once, checked, cached, and torch where it fails."""

import copy
import hashlib
import os
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import onnx
import pytest
import torch
from platformdirs import user_cache_dir
from torch import Tensor

from spice.models import frozen
from spice.models.backbone import Backbone
from spice.models.encoders import TorchEncoder
from spice.models.frozen import ExportWarning, cache_folder, frozen_session
from spice.models.networks import ResNet, network
from spice.settings import Normalization

GRAY = Normalization(mean=(0.5,), std=(0.5,))


def small(seed: int = 0) -> TorchEncoder:
    torch.manual_seed(seed)
    return TorchEncoder("small", ResNet(10, stem="plain", width=4, channels=1), GRAY, size=16)


def images(count: int = 5) -> Tensor:
    return torch.randn(count, 1, 16, 16, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize(
    ("name", "size"), [("resnet18", 33), ("wrn-28-2", 32), ("wrn-37-2", 40), ("lite0", 64), ("lite0", 33)]
)
def test_exported_networks_give_the_features_of_torch(name: str, size: int) -> None:
    torch.manual_seed(0)
    model = network(name, width=None if name == "lite0" else 4).eval()
    for module in model.modules():  # statistics of a trained network: neither 0 nor 1
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean = torch.randn(module.num_features) * 0.1
            module.running_var = torch.rand(module.num_features) + 0.5
    session = frozen_session(model, size=size, channels=3)
    assert session is not None
    batch = torch.randn(4, 3, size, size)
    with torch.no_grad():
        expected = model(batch)
    assert expected.std() > 1e-4
    torch.testing.assert_close(session.run(batch, "features"), expected, atol=1e-5, rtol=1e-4)


def test_no_padding_is_left_for_the_runtime_to_do_alone(cache: Path) -> None:
    assert frozen_session(network("lite0").eval(), size=32, channels=3) is not None
    (file,) = cache.iterdir()
    kinds = [node.op_type for node in onnx.load(file).graph.node]
    assert "Conv" in kinds
    assert "Pad" not in kinds  # it would cost a third of the speed


def test_a_network_is_exported_once_and_found_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = small().encode(images())
    assert [path.suffix for path in cache.iterdir()] == [".onnx"]  # and no partial file left

    def never(*_: object, **__: object) -> None:
        raise AssertionError("exported again")

    monkeypatch.setattr(frozen, "export", never)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert small().encode(images()).equal(first)


def test_two_threads_that_ask_at_once_share_one_export(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exports: list[Path] = []
    really = frozen.export

    def export(network: Backbone, path: Path, *, size: int, channels: int) -> None:
        exports.append(path)
        really(network, path, size=size, channels=channels)

    monkeypatch.setattr(frozen, "export", export)
    encoder = small()
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(encoder.encode, [images(), images()])
    assert torch.equal(one, other)
    assert len(exports) == 1


def test_large_batches_go_through_in_parts() -> None:
    many = images(2 * frozen.IMAGES_PER_CALL + 3)
    encoder = small()
    single = torch.cat([encoder.encode(image.unsqueeze(0)) for image in many])
    torch.testing.assert_close(encoder.encode(many), single, atol=1e-6, rtol=1e-5)


def test_other_weights_and_another_size_are_other_files(cache: Path) -> None:
    small(0).encode(images())
    small(1).encode(images())
    larger = TorchEncoder("larger", small(0).module, GRAY, size=20)
    larger.encode(torch.zeros(1, 1, 20, 20))
    assert len(list(cache.iterdir())) == 3


def test_the_feature_map_comes_from_the_exported_network_and_equals_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = small()
    with torch.no_grad():
        expected = encoder.module.feature_map(images())
    encoder.encode(images())
    monkeypatch.setattr(encoder.module, "feature_map", None)  # torch is not asked any more
    torch.testing.assert_close(encoder.feature_map(images()), expected, atol=1e-4, rtol=1e-4)


def test_features_follow_the_weights_when_the_module_is_trained() -> None:
    encoder = small()
    before = encoder.encode(images())
    trained = copy.deepcopy(encoder.module)
    with torch.no_grad():
        for model in (trained, encoder.module):
            for parameter in model.parameters():
                parameter.mul_(1.1)
    after = encoder.encode(images())
    assert not torch.allclose(before, after)
    with torch.no_grad():
        torch.testing.assert_close(after, trained.eval()(images()), atol=1e-4, rtol=1e-4)


def test_a_module_left_in_training_mode_is_still_encoded_in_eval_mode() -> None:
    encoder = small()
    before = encoder.encode(images())
    encoder.module.train()
    next(encoder.module.children()).eval()  # as one freezes a part
    modes = [part.training for part in encoder.module.modules()]
    assert encoder.encode(images()).equal(before)
    assert encoder.feature_map(images()).mean(dim=(2, 3)).allclose(before, atol=1e-5)
    with torch.no_grad():
        next(encoder.module.parameters()).add_(0.0)
    assert encoder.encode(images()).allclose(before, atol=1e-5)  # exported anew
    assert [part.training for part in encoder.module.modules()] == modes  # and nobody's training is disturbed


def is_tracing() -> bool:
    return bool(torch._C._get_tracing_state())


class Unfaithful(Backbone):
    """Gives something else while it is being traced."""

    features = 2

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, images: Tensor) -> Tensor:
        off = 1.001 if is_tracing() else 1.0
        return images.flatten(start_dim=1)[:, :2] * self.scale * off


class Unexportable(Unfaithful):
    """Leaves torch, which no exporter follows."""

    def forward(self, images: Tensor) -> Tensor:
        if is_tracing():
            raise RuntimeError("cannot be traced\nand here is why")
        return super().forward(images)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (Unfaithful(), r"differ from torch's by .*e-04, more than 1e-04"),
        (Unexportable(), r"exported: cannot be traced$"),
    ],
)
def test_what_cannot_be_exported_faithfully_runs_in_torch_with_a_warning(
    module: Backbone, words: str, cache: Path
) -> None:
    encoder = TorchEncoder("odd", module, GRAY, size=16)
    with pytest.warns(ExportWarning, match=words):
        found = encoder.encode(images())
    assert found.equal(images().flatten(start_dim=1)[:, :2])
    assert not cache.exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        encoder.encode(images())


def test_a_damaged_cache_file_does_not_stop_the_work(cache: Path) -> None:
    expected = small().encode(images())
    (file,) = cache.iterdir()
    file.write_bytes(file.read_bytes()[:100])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = small().encode(images())
    torch.testing.assert_close(found, expected)
    assert file.stat().st_size > 100  # made anew


@pytest.mark.parametrize("tamper", ["another network", "a changed weight", "writable by others"])
def test_a_cached_network_that_was_tampered_with_is_never_run(cache: Path, tamper: str) -> None:
    expected = small(0).encode(images())
    (file,) = cache.iterdir()
    if tamper == "another network":
        small(1).encode(images())
        (other,) = set(cache.iterdir()) - {file}
        other.replace(file)
    elif tamper == "a changed weight":
        model = onnx.load(file)
        weight = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
        weight.raw_data = bytes(len(weight.raw_data))
        onnx.save(model, file)
    else:
        file.chmod(0o666)
    assert small(0).encode(images()).equal(expected)
    (again,) = cache.iterdir()
    assert again.stem.endswith(hashlib.sha256(again.read_bytes()).hexdigest()[:32])
    if os.name == "posix":
        assert again.stat().st_mode & 0o777 == 0o600
        assert cache.stat().st_mode & 0o777 == 0o700


def test_a_cache_that_cannot_be_written_does_not_stop_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SPICE_CACHE", str(tmp_path / "file" / "cache"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert small().encode(images()).shape == (5, 32)


def test_the_cache_is_where_the_platform_keeps_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder() == Path(os.environ["SPICE_CACHE"])
    monkeypatch.delenv("SPICE_CACHE")
    assert cache_folder() == Path(user_cache_dir("spice", appauthor=False))
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache_folder() == tmp_path / "spice"
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert cache_folder() == Path.home() / ".cache" / "spice"


def test_wrongly_shaped_images_are_refused_in_words() -> None:
    encoder = small()
    for wrong in (torch.zeros(2, 3, 16, 16), torch.zeros(2, 1, 20, 20), torch.zeros(1, 16, 16)):
        with pytest.raises(ValueError, match=r"small takes images of shape \(B, 1, 16, 16\), not \("):
            encoder.encode(wrong)
        with pytest.raises(ValueError, match=r"small takes images of shape"):
            encoder.feature_map(wrong)


def test_what_is_encoded_can_be_trained_on() -> None:
    features = small().encode(images())
    layer = torch.nn.Linear(32, 2)
    torch.autograd.backward(layer(features).sum())
    assert layer.weight.grad is not None
