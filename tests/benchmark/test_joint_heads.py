"""Joint-SH and Joint-MH: the feature model learns along, the similarities do not move."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import nn

from spice.augment import Strong, Weak
from spice.benchmark.methods import joint_heads
from spice.benchmark.methods.joint_heads import JointHeads, train_joint_heads
from spice.core import double_softmax_cross_entropy, prototype_labels
from spice.data.batches import batches
from spice.data.images import InMemory
from spice.engine.checkpoints import Checkpoints
from spice.engine.run import Run
from spice.models.heads import Heads
from spice.randomness import generator, seeded
from spice.settings import AugmentSettings, HeadSettings, Normalization
from spice.stages.joint.train import Learner

AUGMENT = AugmentSettings(flip=False, operations=1, cutout=0.2)
GRAY = Normalization(mean=(0.5,), std=(0.5,))
WEAK, STRONG = Weak(AUGMENT, 8, GRAY), Strong(AUGMENT, 8, GRAY)


class Squares(InMemory):
    """Sixty images of three kinds: one quarter of each is bright."""

    def __init__(self) -> None:
        noise = torch.rand(60, 1, 8, 8, generator=torch.Generator().manual_seed(0)) * 60
        for number, image in enumerate(noise):
            row, column = divmod(number % 3, 2)
            image[:, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] += 180
        super().__init__(noise.to(torch.uint8))


IMAGES = Squares()


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())


def train(settings: HeadSettings, run: Run | None = None) -> JointHeads:
    trained = network()
    with torch.no_grad():
        features = trained(IMAGES.pixels.float() / 127.5 - 1)
    learner = Learner(trained, settings.clusters, WEAK, STRONG)
    return train_joint_heads(learner, IMAGES, features, settings, run or Run())


def test_a_step_is_the_sum_of_the_heads_losses_whatever_the_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint_heads, "PORTION", 7)
    settings = HeadSettings(clusters=3, heads=2, epochs=1, batch=60)
    found = train(settings)

    body, features = network(), network()(IMAGES.pixels.float() / 127.5 - 1).detach()
    with seeded(0, "joint heads", "weights"):
        heads = Heads(2, 24, 3)
    optimizer = torch.optim.Adam(heads.parameters(), lr=0.005)
    optimizer.add_param_group({"params": list(body.parameters()), "lr": 1e-4})
    (batch,) = batches(60, 60, seed=0, stage="joint heads", epoch=0)
    pixels = IMAGES.take(batch.images)
    weak = WEAK(pixels, generator(0, "joint heads", "weak", 0, 0))
    strong = STRONG(pixels, generator(0, "joint heads", "strong", 0, 0))
    with torch.no_grad():
        chosen = prototype_labels(features[batch.images], heads(body(weak)).softmax(dim=2))
    logits = heads(body(strong))
    losses = [double_softmax_cross_entropy(logits[head][chosen.image[head]], chosen.cluster[head]) for head in range(2)]
    optimizer.zero_grad()
    torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    for name, value in body.state_dict().items():
        torch.testing.assert_close(found.network.state_dict()[name], value, atol=1e-5, rtol=1e-4)
    for name, value in heads.head(found.number).state_dict().items():
        torch.testing.assert_close(found.head.state_dict()[name], value, atol=1e-5, rtol=1e-4)


def test_the_best_head_is_that_of_the_least_loss_over_the_whole_set_after_any_epoch() -> None:
    # Of a rate so high that later epochs are worse, an earlier one is the best.
    settings = HeadSettings(clusters=3, heads=3, epochs=4, batch=20, learning_rate=0.05)
    found = train(settings)
    assert found.losses.shape == (4, 3)
    number, epoch = found.number, found.epoch
    assert found.losses[epoch - 1, number] == found.losses.min()

    # Trained up to that epoch only, the last network and head are the best ones; their loss, written out.
    again = train(settings.model_copy(update={"epochs": epoch}))
    assert (again.number, again.epoch) == (number, epoch)
    for name, value in found.network.state_dict().items():
        assert torch.equal(again.network.state_dict()[name], value)
    features = network()(IMAGES.pixels.float() / 127.5 - 1).detach()
    weak, strong = (
        view(IMAGES.pixels, generator(0, "joint heads", "select", kind, 0))
        for view, kind in ((WEAK, "weak"), (STRONG, "strong"))
    )
    with torch.no_grad():
        chosen = prototype_labels(features, again.head(again.network(weak)).softmax(dim=1))
        loss = double_softmax_cross_entropy(again.head(again.network(strong))[chosen.image], chosen.cluster)
    torch.testing.assert_close(loss, found.losses.min())


@pytest.mark.parametrize("heads", [1, 3])
def test_the_feature_model_learns_too(heads: int) -> None:
    found = train(HeadSettings(clusters=3, heads=heads, epochs=3, batch=30, overlap=False))
    assert found.losses.shape == (3, heads)
    for before, after in zip(network().parameters(), found.network.parameters(), strict=True):
        assert not torch.equal(before, after)


def test_a_stopped_joint_run_resumes_as_if_never_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Checkpoints, "due", lambda self: True)
    settings = HeadSettings(clusters=3, heads=2, epochs=4, batch=30)

    def stops(task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(settings, Run(0, tmp_path, progress=stops))
    resumed, whole = train(settings, Run(0, tmp_path)), train(settings)
    assert torch.equal(resumed.losses, whole.losses)
    for name, value in whole.network.state_dict().items():
        assert torch.equal(resumed.network.state_dict()[name], value)
