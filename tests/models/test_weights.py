"""Networks trained here, and published ResNets, from safetensors files that must fit exactly."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from spice.errors import UserError
from spice.models.encoders import load_encoder
from spice.models.networks import ResNet, network
from spice.models.weights import NetworkCard, load_network, save_network
from spice.settings import IMAGENET, Normalization

CARD = NetworkCard(
    network="resnet10",
    stem="plain",
    width=8,
    channels=1,
    size=28,
    normalization=Normalization(mean=(0.3,), std=(0.2,)),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    trained = CARD.build()
    trained(torch.randn(16, 1, 28, 28))  # moves the batch-norm statistics
    save_network(tmp_path / "encoder.safetensors", trained, CARD)
    return tmp_path / "encoder.safetensors"


def published(path: Path) -> Path:
    """ImageNet weights as torchvision has them: classifier on top, no counters of batches in old files."""
    weights = {name: value for name, value in ResNet(18).state_dict().items() if "num_batches" not in name}
    save_file(weights | {"fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}, path)
    return path


def test_a_network_written_and_loaded_is_the_same_network(file: Path) -> None:
    torch.manual_seed(0)
    trained = CARD.build()
    trained(torch.randn(16, 1, 28, 28))
    loaded, card = load_network(file)
    assert card == CARD
    assert not loaded.training
    for name, value in trained.state_dict().items():
        assert value.equal(loaded.state_dict()[name]), name


@pytest.mark.parametrize("prefix", ["", "resnet10:"])
def test_the_file_alone_tells_all_an_encoder_must_know(file: Path, prefix: str) -> None:
    encoder = load_encoder(f"{prefix}{file}")
    assert (encoder.size, encoder.channels, encoder.features) == (28, 1, 64)
    assert encoder.normalization == CARD.normalization
    assert encoder.encode(torch.zeros(2, 1, 28, 28)).shape == (2, 64)
    assert encoder.feature_map(torch.zeros(2, 1, 28, 28)).shape == (2, 64, 4, 4)


def test_every_network_goes_through_a_file(tmp_path: Path) -> None:
    for name in ("wrn-28-2", "lite0"):
        trained = network(name)
        card = NetworkCard(network=name, size=32, normalization=IMAGENET)
        save_network(tmp_path / "file.safetensors", trained, card)
        loaded, _ = load_network(tmp_path / "file.safetensors")
        assert all(value.equal(loaded.state_dict()[key]) for key, value in trained.state_dict().items())


def test_published_resnet_weights_load_without_their_classifier(tmp_path: Path) -> None:
    encoder = load_encoder(f"resnet18:{published(tmp_path / 'model.safetensors')}")
    assert (encoder.size, encoder.features, encoder.normalization) == (224, 512, IMAGENET)


def test_a_file_that_does_not_fit_is_refused_in_one_line(file: Path, tmp_path: Path) -> None:
    weights = load_file(file)
    del weights["layer4.0.conv2.weight"]
    header = {"spice.network": CARD.model_dump_json()}
    save_file(weights, tmp_path / "less.safetensors", header)
    save_file(load_file(file) | {"extra": torch.zeros(1)}, tmp_path / "more.safetensors", header)
    wider = json.dumps(CARD.model_dump(mode="json") | {"width": 16})
    save_file(load_file(file), tmp_path / "wider.safetensors", {"spice.network": wider})
    for name, words in (("less", "layer4.0.conv2.weight"), ("more", "Unexpected"), ("wider", "instead of")):
        with pytest.raises(UserError, match=rf"{name}.safetensors does not fit resnet10: .*({words})") as caught:
            load_encoder(str(tmp_path / f"{name}.safetensors"))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing.safetensors", r"there is no file .*nothing.safetensors"),
        ("pickled.safetensors", r"is not a safetensors file \(.*spice never opens pickle files"),
        ("bare.safetensors", r"does not say which network it contains"),
        ("resnet34:published.safetensors", r"does not fit resnet34: it has no layer1.2"),
        ("resnet18:encoder.safetensors", r"contains resnet10, not resnet18; use resnet10:"),
        ("resnet18:bare.safetensors", r"does not say which network it contains"),
        ("newer.safetensors", r"the header of .* cannot be read \(color: .*another version\?"),
    ],
)
def test_what_cannot_be_a_network_is_refused_in_words(file: Path, tmp_path: Path, name: str, words: str) -> None:
    torch.save({"weight": torch.zeros(2)}, tmp_path / "pickled.safetensors")
    save_file({"conv1.weight": torch.zeros(4, 3, 3, 3)}, tmp_path / "bare.safetensors")
    newer = json.dumps(CARD.model_dump(mode="json") | {"color": "blue"})
    save_file(load_file(file), tmp_path / "newer.safetensors", {"spice.network": newer})
    published(tmp_path / "published.safetensors")
    kind, _, path = name.rpartition(":")
    with pytest.raises(UserError, match=words) as caught:
        load_encoder(f"{kind}{':' if kind else ''}{tmp_path / path}")
    assert "\n" not in str(caught.value)


def test_a_card_whose_channels_disagree_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a normalization of 1 channels, got 3"):
        NetworkCard(network="resnet10", channels=1, size=28, normalization=IMAGENET)


def test_an_impossible_size_is_refused() -> None:
    with pytest.raises(UserError, match="the image size must be at least 1 px, got -1"):
        load_encoder("lite0", size=-1)


@pytest.mark.parametrize("name", ["lite1", "resnet18", "hf:", "onnx:", "features:", "unknown:thing", ""])
def test_an_unknown_name_is_answered_with_the_known_ones(name: str) -> None:
    with pytest.raises(UserError, match=r"unknown encoder '.*'; choose lite0, lite2, hf:NAME"):
        load_encoder(name)


@pytest.mark.parametrize(
    "change",
    [
        {"network": "resnet9000"},
        {"network": "__import__"},
        {"width": 1 << 24},  # a petabyte
        {"width": 1 << 62},
        {"size": 1 << 30},
        {"normalization": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.0, 0.5]}},
        {"normalization": {"mean": [0.5, 0.5, "nan"], "std": [0.5, 0.5, 0.5]}},
        {"stem": "imagenet", "network": "small"},
    ],
)
def test_a_hostile_header_is_refused_before_memory_is_taken(
    file: Path, tmp_path: Path, change: dict[str, object]
) -> None:
    header = json.dumps(CARD.model_dump(mode="json") | change)
    save_file(load_file(file), tmp_path / "hostile.safetensors", {"spice.network": header})
    with pytest.raises(UserError, match=r"hostile.safetensors") as caught:
        load_network(tmp_path / "hostile.safetensors")
    assert "\n" not in str(caught.value)
