"""A network cut in two is still that network, and only its tail learns."""

from pathlib import Path

import pytest
import torch
from test_huggingface import MODELS, saved  # type: ignore[import-not-found]  # a test beside this one
from torch import Tensor, nn

from spice.models.backbone import Backbone
from spice.models.encoders import TorchEncoder, load_encoder
from spice.models.networks import network
from spice.models.parts import Parts, Tail, split_network
from spice.settings import IMAGENET

SMALL = {"lite0": None, "resnet18": 8, "resnet34": 4, "wrn-28-2": 4}


def small(name: str) -> Backbone:
    torch.manual_seed(0)
    return network(name, width=SMALL[name]).eval()


def images(size: int, count: int = 3) -> Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(1))


def through(parts: Parts, batch: Tensor) -> Tensor:
    assert parts.front is not None
    with torch.no_grad():
        features: Tensor = parts.tail.eval()(parts.front(batch))
    return features


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("share", [0.05, 1 / 3, 0.9])
def test_front_and_tail_are_the_network(name: str, share: float) -> None:
    whole = small(name)
    batch = images(40)
    with torch.no_grad():
        torch.testing.assert_close(through(split_network(whole, share=share, size=40, channels=3), batch), whole(batch))


def test_the_share_counts_layers_that_have_weights() -> None:
    # A stem, sixteen bottlenecks and a head: a third is the head and the five bottlenecks at the last resolution.
    parts = split_network(small("lite0"), share=1 / 3, size=160, channels=3)
    assert parts.front is not None
    assert parts.front(images(160, 1)).shape == (1, 112, 10, 10)
    least = split_network(small("lite0"), share=0.001, size=64, channels=3)
    assert len(list(least.tail.parameters())) == 3, "one layer at least: the head's convolution and its norm"


def test_all_of_it_is_the_network_itself() -> None:
    whole = small("resnet18")
    assert split_network(whole, share=1, size=32, channels=3) == Parts(None, whole)


def test_learning_changes_the_tail_of_the_network_and_no_statistics() -> None:
    whole = small("resnet18")
    before = {name: value.clone() for name, value in whole.state_dict().items()}
    parts = split_network(whole, share=1 / 3, size=32, channels=3)
    assert parts.front is not None
    optimizer = torch.optim.SGD(parts.tail.parameters(), lr=0.1)
    parts.tail.train()(parts.front(images(32))).square().sum().backward()
    optimizer.step()
    changed = {name for name, value in whole.state_dict().items() if not torch.equal(value, before[name])}
    assert changed, "the tail's weights are the network's"
    assert {name.partition(".")[0] for name in changed} == {"layer3", "layer4"}
    assert not [name for name in changed if "running" in name or "tracked" in name]


def test_a_tail_sees_each_image_alone_while_it_learns() -> None:
    tail = Tail(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Flatten()).train()
    batch = images(4)
    torch.testing.assert_close(tail(batch)[:1], tail(batch[:1]))


class Tangled(Backbone):
    """Says it is a chain, and is not."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.features = nn.Linear(48, 48), nn.Linear(48, 48), 48

    def forward(self, batch: Tensor) -> Tensor:
        out: Tensor = self.second(self.first(batch.flatten(1))) + batch.flatten(1)
        return out

    def chain(self) -> list[nn.Module]:
        return [nn.Flatten(), self.first, self.second]


def test_a_network_that_is_not_its_chain_stays_whole(caplog: pytest.LogCaptureFixture) -> None:
    whole = Tangled()
    assert split_network(whole, share=0.5, size=4, channels=3) == Parts(None, whole)
    assert "Tangled cannot be split into layers; training all of it" in caplog.text


@pytest.mark.parametrize("kind", [kind for kind in MODELS if kind != "dinov3_vit"])
def test_published_networks_can_be_taken_apart(kind: str, tmp_path: Path) -> None:
    saved(kind, tmp_path)
    encoder = load_encoder(f"hf:{tmp_path}")
    assert encoder.module is not None
    parts = split_network(encoder.module, share=0.5, size=encoder.size, channels=3)
    with torch.no_grad():
        expected = encoder.module(images(encoder.size))
    torch.testing.assert_close(through(parts, images(encoder.size)), expected, atol=1e-5, rtol=1e-5)
    # On ONNX Runtime, where the front runs on a CPU, it is the same front.
    assert parts.front is not None
    frozen = TorchEncoder("front", parts.front, IMAGENET, size=encoder.size)
    with torch.no_grad():
        maps = parts.front(images(encoder.size))
    torch.testing.assert_close(frozen.encode(images(encoder.size)), maps, atol=1e-4, rtol=1e-4)


def test_a_transformer_whose_layers_need_positions_stays_whole(tmp_path: Path) -> None:
    saved("dinov3_vit", tmp_path)
    encoder = load_encoder(f"hf:{tmp_path}")
    assert encoder.module is not None
    assert split_network(encoder.module, share=0.5, size=encoder.size, channels=3).front is None
