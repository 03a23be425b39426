"""The trained model: saved, loaded, with the same predictions as in training."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from spice.data.images import InMemory
from spice.errors import UserError
from spice.models.backbone import Backbone
from spice.models.encoders import TorchEncoder, load_encoder
from spice.models.frozen import trace
from spice.models.heads import Head
from spice.models.networks import network
from spice.models.weights import NetworkCard, save_network
from spice.settings import IMAGENET
from spice.stages.bank import build_bank
from spice.stages.encode import encode_plain
from spice.stages.model import NewerModelWarning, TrainedModel
from spice.version import __version__


def pictures(count: int, *, size: int = 64, channels: int = 3) -> InMemory:
    """Random images."""
    random = torch.Generator().manual_seed(count)
    return InMemory(torch.randint(0, 256, (count, channels, size, size), generator=random).byte())


@pytest.fixture(scope="module")
def model() -> TrainedModel:
    torch.manual_seed(0)
    encoder = load_encoder("lite0", size=64)
    features = encode_plain(encoder, pictures(70))
    head = Head(encoder.features, 3)
    cluster = head(features).argmax(dim=1)
    return TrainedModel(encoder, head, build_bank(features, cluster, clusters=3, neighbors=5, seed=0), threshold=0.5)


PREDICT = """
import sys, torch
from pathlib import Path
import numpy as np
from spice.stages.model import NewerModelWarning, TrainedModel
from spice.version import __version__
features = torch.from_numpy(np.load(sys.argv[2]))
found = TrainedModel.load(Path(sys.argv[1])).predict_features(features)
np.savez(sys.argv[3], **found._asdict())
"""


@pytest.mark.parametrize("embed", [False, True])
def test_a_saved_model_predicts_the_same_in_a_new_process(model: TrainedModel, tmp_path: Path, embed: bool) -> None:
    features = encode_plain(model.encoder, pictures(90))
    expected = model.predict_features(features)
    model.save(tmp_path / "model", embed=embed)
    np.save(tmp_path / "features.npy", features.numpy())
    arguments = [str(tmp_path / name) for name in ("model", "features.npy", "found.npz")]
    subprocess.run([sys.executable, "-c", PREDICT, *arguments], check=True)
    with np.load(tmp_path / "found.npz") as found:
        for name, column in expected._asdict().items():
            # Groups are equal. Floats may differ by rounding, which depends on the memory alignment of arrays.
            np.testing.assert_allclose(found[name], column, rtol=1e-5, atol=1e-7, err_msg=name)
    assert len(set(expected.cluster.tolist())) > 1
    assert (tmp_path / "model" / "encoder.safetensors").exists() == embed


def test_the_features_of_an_image_do_not_depend_on_the_number_of_images(model: TrainedModel) -> None:
    images = pictures(80)
    first = encode_plain(model.encoder, images, count=70)
    assert torch.equal(first, encode_plain(model.encoder, InMemory(images.pixels[:70])))


def test_the_fingerprint_depends_on_the_weights() -> None:
    encoder, same = (TorchEncoder("small", seeded_network(), IMAGENET, size=16) for _ in range(2))
    before = encoder.fingerprint()
    assert before == same.fingerprint()
    with torch.no_grad():
        next(encoder.module.parameters()).mul_(2)
    assert encoder.fingerprint() != before


def seeded_network() -> Backbone:
    torch.manual_seed(0)
    return network("resnet10", stem="plain", width=4)


def test_an_encoder_of_color_images_takes_gray_ones(model: TrainedModel) -> None:
    gray = pictures(4, channels=1)
    color = InMemory(gray.pixels.repeat(1, 3, 1, 1))
    torch.testing.assert_close(encode_plain(model.encoder, gray), encode_plain(model.encoder, color))


def test_predictions_agree_with_the_head_and_the_bank(model: TrainedModel) -> None:
    features = encode_plain(model.encoder, pictures(30))
    found = model.predict_features(features)
    probs = model.head(features).softmax(dim=1)
    np.testing.assert_allclose(found.probabilities, probs.detach().numpy(), rtol=1e-5)
    np.testing.assert_array_equal(found.cluster, found.probabilities.argmax(axis=1))
    np.testing.assert_allclose(found.confidence, found.probabilities.max(axis=1))
    np.testing.assert_array_equal(found.reliable, found.reliability > 0.5)
    assert (found.nearest_other_cluster != found.cluster).all()


def test_other_weights_under_the_same_name_are_refused(model: TrainedModel, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    about = json.loads((tmp_path / "model" / "model.json").read_text())
    (tmp_path / "model" / "model.json").write_text(json.dumps({**about, "encoder_hash": "0" * 32}))
    with pytest.raises(UserError, match=r"trained with different weights of lite0; .* --embed"):
        TrainedModel.load(tmp_path / "model")


def test_a_damaged_or_foreign_model_is_refused_with_a_message(model: TrainedModel, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"neither a run folder nor a model folder \(it has no model.json\)"):
        TrainedModel.load(tmp_path)
    model.save(tmp_path / "model")
    (tmp_path / "model" / "head.safetensors").write_bytes(b"not a head")
    with pytest.raises(UserError, match=r"the model in .* is damaged"):
        TrainedModel.load(tmp_path / "model")
    about = json.loads((tmp_path / "model" / "model.json").read_text())
    (tmp_path / "model" / "model.json").write_text(json.dumps({**about, "format": "new"}))
    with pytest.raises(UserError, match=r"not a model that spice .* can read"):
        TrainedModel.load(tmp_path / "model")


def test_saving_replaces_a_model_but_no_other_folder(model: TrainedModel, tmp_path: Path) -> None:
    model.save(tmp_path / "model", embed=True)
    model.save(tmp_path / "model")
    names = ["bank.safetensors", "head.safetensors", "model.json"]
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == names
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    with pytest.raises(UserError, match="exists and is not a model"):
        model.save(tmp_path / "mine")


def test_a_model_of_lite0_is_a_few_megabytes(model: TrainedModel, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    assert sum(path.stat().st_size for path in (tmp_path / "model").iterdir()) < 10e6


def change_about(folder: Path, **changes: object) -> None:
    about = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**about, **changes}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": 2}, "has format 2, and spice .* reads format 1"),
        ({"format": 0}, "has format 0, and"),
        ({"format": 99}, "has format 99, and"),
        ({"clusters": 4}, "head is for 1280 features and 3 clusters, not 1280 and 4"),
        ({"width": 640}, "head is for 1280 features"),
        ({"threshold": 1.5}, "at 'threshold'"),
        ({"threshold": float("nan")}, "at 'threshold'"),
        ({"unlike_below": float("inf")}, "at 'unlike_below'"),
        ({"unlike_below": float("nan")}, "at 'unlike_below'"),
        ({"neighbors": 0}, "at 'neighbors'"),
        ({"neighbors": 71}, r"bank of \(70, 1280\) features does not fit 71 neighbors"),
        ({"size": 1 << 40}, "at 'size'"),
        ({"encoder": "lite9000"}, "unknown encoder 'lite9000'"),
        ({"encoder": "scratch"}, "there is no file"),
    ],
)
def test_a_model_whose_parts_do_not_fit_is_refused(
    model: TrainedModel, tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    model.save(tmp_path / "model")
    change_about(tmp_path / "model", **changes)
    with pytest.raises(UserError, match=words) as caught:
        TrainedModel.load(tmp_path / "model")
    assert "\n" not in str(caught.value)


def test_a_model_of_a_later_version_is_used_with_a_warning(model: TrainedModel, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    for earlier in (__version__, "0.1.0", "0.1.99", "no version"):
        change_about(tmp_path / "model", spice=earlier)
        with warnings.catch_warnings():
            warnings.simplefilter("error", NewerModelWarning)
            TrainedModel.load(tmp_path / "model")
    for later in ("0.10.0", "9.9", "99.0.0.dev1"):
        change_about(tmp_path / "model", spice=later)
        with pytest.warns(NewerModelWarning, match=f"was made by spice {later}, newer than this spice {__version__};"):
            TrainedModel.load(tmp_path / "model")


@pytest.mark.parametrize("embed", [False, True])
def test_a_file_that_changed_after_it_was_saved_is_refused(model: TrainedModel, tmp_path: Path, embed: bool) -> None:
    model.save(tmp_path / "model", embed=embed)
    for path in sorted((tmp_path / "model").glob("*.safetensors")):
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))  # the last bit of the last number
        with pytest.raises(UserError, match=f"{path.name} changed after it was written"):
            TrainedModel.load(tmp_path / "model")
        path.write_bytes(content)
    TrainedModel.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("file", "name", "value", "words"),
    [
        ("head", "out.bias", torch.tensor([0.0, float("nan"), 0.0]), "head has numbers that are not finite"),
        ("head", "out.bias", torch.tensor([1, 2, 3]), "head has numbers of the wrong type"),
        ("head", "hidden.weight", torch.zeros(1280, 1280).byte(), "head has numbers of the wrong type"),
        ("bank", "features", torch.full((70, 1280), float("inf")).half(), "bank has numbers that are not finite"),
        ("bank", "features", torch.zeros(70, 640).half(), "does not fit"),
        ("bank", "cluster", torch.full((70,), 3), "bank has groups other than 0 to 2"),
        ("bank", "cluster", torch.full((70,), -1), "bank has groups other than 0 to 2"),
        ("bank", "cluster", torch.zeros(70, 1).long(), "does not fit"),
        ("bank", "cluster", torch.zeros(70), "numbers of the wrong type"),
    ],
)
def test_the_parts_of_a_model_without_hashes_are_checked(
    model: TrainedModel, tmp_path: Path, file: str, name: str, value: torch.Tensor, words: str
) -> None:
    model.save(tmp_path / "model")
    change_about(tmp_path / "model", hashes={})  # as in older models
    TrainedModel.load(tmp_path / "model")
    path = tmp_path / "model" / f"{file}.safetensors"
    save_file(load_file(path) | {name: value}, path)
    with pytest.raises(UserError, match=words):
        TrainedModel.load(tmp_path / "model")


@pytest.mark.parametrize("kind", ["onnx", "safetensors"])
def test_an_encoder_file_that_changed_after_training_is_refused(tmp_path: Path, kind: str) -> None:
    def write(seed: int) -> None:
        torch.manual_seed(seed)
        small = network("resnet10", stem="plain", width=4).eval()
        if kind == "onnx":
            trace(small, torch.zeros(2, 3, 16, 16), tmp_path / "file.onnx", output="features")
        else:
            card = NetworkCard(network="resnet10", stem="plain", width=4, size=16, normalization=IMAGENET)
            save_network(tmp_path / "file.safetensors", small, card)

    write(seed=0)
    name = f"{'onnx:' if kind == 'onnx' else ''}{tmp_path}/file.{kind}"
    encoder = load_encoder(name, size=16)
    features = encode_plain(encoder, pictures(20, size=16))
    cluster = torch.arange(20) % 3
    bank = build_bank(features, cluster, clusters=3, neighbors=5, seed=0)
    TrainedModel(encoder, Head(encoder.features, 3), bank, threshold=0.5).save(tmp_path / "model")
    TrainedModel.load(tmp_path / "model")
    write(seed=1)
    with pytest.raises(UserError, match="was trained with different weights of"):
        TrainedModel.load(tmp_path / "model")
