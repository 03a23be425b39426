"""MoCo-v2, compared with the algorithm in plain loops, and its queue."""

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from spice.engine.run import Run
from spice.models.networks import ResNet
from spice.settings import FeatureSettings
from spice.stages.features.moco import MoCo, ShortQueueWarning, queue_length
from spice.stages.features.pretext import default_momentum
from spice.stages.features.train import build_pretext, schedule_for, train_features, view_pairs

# A weight decay and a learning rate that are large enough to have an effect in six steps.
SETTINGS = FeatureSettings(
    network="resnet10",
    width=4,
    batch=8,
    epochs=2,
    momentum=0.9,
    queue=16,
    projection=6,
    weight_decay=0.1,
    learning_rate=0.05,
)


class Noise:
    """Random images in memory."""

    size, channels = 16, 3

    def __init__(self, count: int = 24) -> None:
        self.pixels = torch.randint(
            0, 256, (count, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(5)
        )

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, positions: Tensor) -> Tensor:
        return self.pixels[positions]


def by_hand(images: Noise, settings: FeatureSettings) -> tuple[dict[str, Tensor], list[Tensor], list[float]]:
    """Algorithm 1 of He et al. with the projection head of v2, in loops: parameters, queue, losses."""
    schedule = schedule_for(len(images), settings)
    task = build_pretext(images, settings, schedule, Run()).train()
    assert isinstance(task, MoCo)
    query_side, key_side = [task.network, task.projection], [task.key_network, task.key_projection]
    parameters = [p for module in query_side for p in module.parameters()]
    averages = [p for module in key_side for p in module.parameters()]
    velocity = [torch.zeros_like(p) for p in parameters]
    queue, losses = list(task.queue.clone()), []
    for step, first, second in view_pairs(images, settings, schedule, Run()):
        with torch.no_grad():
            for average, parameter in zip(averages, parameters, strict=True):
                average.copy_(0.9 * average + 0.1 * parameter)
            keys = project(key_side[0](second), key_side[1])
        queries = project(query_side[0](first), query_side[1])
        loss = torch.zeros(())
        for query, key in zip(queries, keys, strict=True):
            negatives = sum(((query @ other) / 0.2).exp() for other in queue)
            positive = ((query @ key) / 0.2).exp()
            loss = loss - (positive / (negatives + positive)).log() / len(queries)
        gradients = torch.autograd.grad(loss, parameters)
        rate = settings.learning_rate * (1 + math.cos(math.pi * step / schedule.steps)) / 2
        with torch.no_grad():
            for place, parameter in enumerate(parameters):
                velocity[place] = 0.9 * velocity[place] + gradients[place] + settings.weight_decay * parameter
                parameter.sub_(rate * velocity[place])
        queue = queue[len(keys) :] + list(keys)
        losses.append(loss.item())
    return task.state_dict(), queue, losses


def project(features: Tensor, head: torch.nn.Module) -> Tensor:
    weights = dict(head.named_parameters())
    hidden = (features @ weights["hidden.weight"].T + weights["hidden.bias"]).clamp(min=0)
    return F.normalize(hidden @ weights["out.weight"].T + weights["out.bias"], dim=1)


def test_training_is_the_published_algorithm(tmp_path: Path) -> None:
    state, queue, losses = by_hand(Noise(), SETTINGS)
    reported: list[float] = []
    run = Run(folder=tmp_path, progress=lambda *call: reported.extend(figures["loss"] for figures in call[3:]))
    train_features(Noise(), SETTINGS, run)
    assert reported == pytest.approx(losses, rel=1e-4)
    saved = run.checkpoints(SETTINGS.model_dump(exclude={"whitening"}) | {"images": 24, "processes": 1}).load()
    assert saved is not None
    trained = saved.state["pretext"]
    for name, expected in state.items():
        if name not in ("queue", "position"):
            torch.testing.assert_close(trained[name], expected, rtol=1e-3, atol=1e-5, msg=name)
    # Six batches of eight through a queue of sixteen: it was replaced three times.
    assert int(trained["position"]) == 0
    torch.testing.assert_close(trained["queue"], torch.stack(queue), rtol=1e-3, atol=1e-4)


def test_the_key_branch_gets_no_gradient_and_has_its_own_batch_statistics() -> None:
    images = Noise()
    task = build_pretext(images, SETTINGS, schedule_for(24, SETTINGS), Run()).train()
    assert isinstance(task, MoCo)
    first, second = torch.randn(8, 3, 16, 16), torch.randn(8, 3, 16, 16) + 3.0
    outcome = task(first, second, step=0)
    outcome.loss.backward()
    assert all(parameter.grad is None for parameter in task.key_network.parameters())
    assert all(parameter.grad is not None for parameter in task.network.parameters())
    statistics = {name: buffer for name, buffer in task.network.named_buffers() if name == "bn1.running_mean"}
    assert not torch.allclose(
        dict(task.key_network.named_buffers())["bn1.running_mean"], statistics["bn1.running_mean"]
    )


def test_new_keys_are_not_negatives_in_their_own_step() -> None:
    images = Noise()
    task = build_pretext(images, SETTINGS, schedule_for(24, SETTINGS), Run()).train()
    assert isinstance(task, MoCo)
    before = task.queue.clone()
    outcome = task(torch.randn(8, 3, 16, 16), torch.randn(8, 3, 16, 16), step=0)
    assert torch.equal(task.queue, before)
    task.update_(outcome, step=0)
    assert torch.equal(task.queue[:8], outcome.second)
    assert torch.equal(task.queue[8:], before[8:])
    assert int(task.position) == 8


def test_the_queue_starts_full_of_random_unit_vectors_that_depend_on_the_seed_alone() -> None:
    queues = [
        MoCo(ResNet(10, stem="plain", width=4), SETTINGS, Run(seed=seed), images=100, steps=10).queue
        for seed in (0, 0, 1)
    ]
    torch.testing.assert_close(queues[0].norm(dim=1), torch.ones(16))
    assert torch.equal(queues[0], queues[1])
    assert not torch.equal(queues[0], queues[2])


@pytest.mark.parametrize(
    ("images", "batch", "expected"),
    [(50_000, 128, 12_416), (1_000_000, 128, 65_536), (1_797, 256, 256), (100, 128, 100), (1_000, 128, 128)],
)
def test_the_queue_is_shorter_than_the_collection(images: int, batch: int, expected: int) -> None:
    assert queue_length(images, FeatureSettings(batch=batch)) == expected


def test_a_queue_as_long_as_the_collection_is_shortened_with_a_warning() -> None:
    assert queue_length(12_801, FeatureSettings(queue=12_800)) == 12_800
    with pytest.warns(ShortQueueWarning, match="a queue of 65536 keys is too long for 1000 images; shortened to 896"):
        assert queue_length(1_000, FeatureSettings(queue=65_536)) == 896


def test_momentum_is_that_of_the_paper_on_its_schedule_and_lower_on_a_short_one() -> None:
    assert default_momentum(390_000) == 0.999
    assert default_momentum(4_000) == pytest.approx(0.975)
    assert default_momentum(10) == 0.9
