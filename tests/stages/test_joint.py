"""Stage 3: L_joint step by step, the images of each step, and resuming."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from spice.augment import Strong, Weak
from spice.core import IGNORE
from spice.data.images import InMemory
from spice.engine.checkpoints import Checkpoints
from spice.engine.run import Run
from spice.errors import UserError
from spice.settings import AugmentSettings, JointSettings, Normalization
from spice.stages.joint.fixmatch import FixMatch
from spice.stages.joint.freematch import FreeMatch
from spice.stages.joint.sampling import Labeled, draw_weights
from spice.stages.joint.train import Joint, Learner, View, momentum, train_jointly

AUGMENT = AugmentSettings(flip=False, operations=2)
GRAY = Normalization(mean=(0.5,), std=(0.5,))
RUN = Run(seed=0)


class Squares(InMemory):
    """Forty images of three kinds, with a different bright quarter for each kind."""

    def __init__(self) -> None:
        noise = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0)) * 60
        self.kind = torch.arange(40) % 3
        for image, kind in zip(noise, self.kind.tolist(), strict=True):
            image[:, 4 * (kind // 2) : 4 * (kind // 2) + 4, 4 * (kind % 2) : 4 * (kind % 2) + 4] += 180
        super().__init__(noise.to(torch.uint8))


IMAGES = Squares()
LABELED = Labeled(torch.arange(9), IMAGES.kind[:9])


def small_network(*, norm: bool = True) -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8) if norm else nn.Identity(), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 3))


def learner(network: nn.Module) -> Learner:
    return Learner.on_images(network, 3, AUGMENT, size=8, normalization=GRAY)


def train(settings: JointSettings, network: nn.Module, run: Run = RUN) -> Joint:
    return train_jointly(learner(network), IMAGES, LABELED, settings, run)


SETTINGS = JointSettings(steps=30, labeled=6, unlabeled=14, ema=None, learning_rate=0.1, threshold=0.6)


def test_a_step_is_sgd_on_the_papers_loss() -> None:
    """One step, compared with the equation in loops over images."""
    settings = JointSettings(steps=1, labeled=4, unlabeled=6, threshold=0.37, learning_rate=0.1, ema=0.75)
    seen: dict[str, Tensor] = {}
    views: dict[str, View] = {
        "weak": Weak(AUGMENT, size=8, normalization=GRAY),
        "strong": Strong(AUGMENT, size=8, normalization=GRAY),
    }

    class Remembering:
        def __init__(self, name: str) -> None:
            self.name = name

        def __call__(
            self, images: Tensor, generator: torch.Generator, *, rows: Tensor | None = None, of: int | None = None
        ) -> Tensor:
            seen[f"{self.name} pixels"] = images
            seen[self.name] = views[self.name](images, generator, rows=rows, of=of)
            return seen[self.name]

    network = small_network(norm=False)
    before = copy.deepcopy(network)
    shown = Learner(network, 3, weak=Remembering("weak"), strong=Remembering("strong"))
    result = train_jointly(shown, IMAGES, LABELED, settings, RUN)
    # The labeled images come first, each with its label. The strong views are of the unlabeled images.
    assert torch.equal(seen["weak pixels"][4:], seen["strong pixels"])
    labels = []
    for pixels in seen["weak pixels"][:4]:
        (place,) = [place for place in range(9) if torch.equal(IMAGES.pixels[place], pixels)]
        labels.append(int(IMAGES.kind[place]))

    reliable_term = torch.zeros(())
    for view, label in zip(seen["weak"][:4], labels, strict=True):
        reliable_term = reliable_term - before(view[None]).log_softmax(dim=1)[0, label] / 4
    consistency_term, taught = torch.zeros(()), 0
    for weak, strong in zip(seen["weak"][4:], seen["strong"], strict=True):
        probs = before(weak[None]).softmax(dim=1)[0]
        if probs.max() >= 0.37:
            taught += 1
            consistency_term = consistency_term - before(strong[None]).log_softmax(dim=1)[0, probs.argmax()] / 6
    assert 0 < taught < 6, "the example must have both kinds of image"
    (reliable_term + consistency_term).backward()  # type: ignore[no-untyped-call]

    assert result.history[0].loss == pytest.approx((reliable_term + consistency_term).item(), abs=1e-6)
    assert result.history[0].confident == pytest.approx(taught / 6)
    averaged = dict(result.network.named_parameters())
    for (name, new), old in zip(network.named_parameters(), before.parameters(), strict=True):
        assert old.grad is not None
        decay = 5e-4 * old.detach() if old.ndim > 1 else 0.0  # no weight decay for biases
        gradient = old.grad + decay
        expected = old.detach() - 0.1 * (gradient + 0.9 * gradient)  # Nesterov's first step
        torch.testing.assert_close(new.detach(), expected)
        torch.testing.assert_close(averaged[name].detach(), 0.75 * old.detach() + 0.25 * expected)


def test_labels_come_from_weak_views_and_are_learned_from_strong_ones() -> None:
    shown, pixels = learner(small_network()), IMAGES.take(torch.arange(12))
    for view, recipe in ((shown.weak, Weak), (shown.strong, Strong)):
        expected = recipe(AUGMENT, size=8, normalization=GRAY)(pixels, torch.Generator().manual_seed(5))
        assert torch.equal(view(pixels, torch.Generator().manual_seed(5)), expected)


def test_every_step_draws_new_views() -> None:
    shown, states = learner(small_network()), list[bytes]()

    def weak(
        images: Tensor, generator: torch.Generator, *, rows: Tensor | None = None, of: int | None = None
    ) -> Tensor:
        states.append(generator.get_state().numpy().tobytes())
        return shown.weak(images, generator, rows=rows, of=of)

    train_jointly(shown._replace(weak=weak), IMAGES, LABELED, SETTINGS.model_copy(update={"steps": 4}), RUN)
    assert (len(states), len(set(states))) == (4, 4)


def test_the_result_is_the_average_with_the_latest_batch_norm_statistics() -> None:
    network = small_network()
    result = train(SETTINGS, network)
    assert not result.network.training
    assert not torch.equal(next(result.network.parameters()), next(network.parameters()))
    for old, new in zip(result.network.buffers(), network.buffers(), strict=True):
        assert torch.equal(old, new)


def test_training_spreads_a_few_labels_to_all_images() -> None:
    result = train(JointSettings(steps=150, labeled=6, unlabeled=14, ema=None, learning_rate=0.1), small_network())
    plain = Weak(AUGMENT.model_copy(update={"shift": 1}), size=8, normalization=GRAY)
    with torch.no_grad():
        predicted = result.network(plain(IMAGES.pixels, torch.Generator().manual_seed(0))).argmax(dim=1)
    assert (predicted == IMAGES.kind).float().mean() >= 0.95
    assert result.history[-1].confident > result.history[0].confident


@pytest.mark.parametrize(
    ("algorithm", "optimizer", "rate"),
    [("fixmatch", "sgd", 0.1), ("freematch", "sgd", 0.1), ("fixmatch", "adam", 0.01)],
)
def test_a_stopped_run_resumes_as_if_never_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str, optimizer: str, rate: float
) -> None:
    settings = SETTINGS.model_copy(update={"algorithm": algorithm, "optimizer": optimizer, "learning_rate": rate})
    whole = train(settings, small_network())

    class StopError(Exception):
        pass

    def stop(task: str, done: int, total: int, figures: object = None) -> None:
        if done == 17:
            raise StopError

    monkeypatch.setattr(Checkpoints, "due", lambda _: True)
    with pytest.raises(StopError):
        train(settings, small_network(), Run(0, tmp_path, progress=stop))
    resumed = train(settings, small_network(), Run(0, tmp_path))
    assert resumed.history == whole.history
    for name, tensor in whole.network.state_dict().items():
        assert torch.equal(tensor, resumed.network.state_dict()[name]), name


def test_a_time_limit_is_converted_to_steps_once(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"minutes": 0.01})
    first = train(settings, small_network(), Run(0, tmp_path))
    steps = len(first.history)
    assert steps > 1
    again = train(settings, small_network(), Run(0, tmp_path))
    assert len(again.history) == steps
    # The steps that measured the speed were undone.
    planned = train(SETTINGS.model_copy(update={"steps": steps}), small_network())
    assert planned.history == first.history


def test_every_image_is_drawn_once_before_any_is_drawn_twice() -> None:
    taken: list[int] = []

    class Watched(Squares):
        def take(self, positions: Tensor) -> Tensor:
            taken.extend(positions[6:].tolist())
            return super().take(positions)

    train_jointly(learner(small_network()), Watched(), LABELED, JointSettings(steps=6, labeled=6, unlabeled=14), RUN)
    assert sorted(taken[:40]) == sorted(taken[40:80]) == list(range(40))
    assert taken[:40] != taken[40:80]


def test_a_collection_may_be_smaller_than_a_step() -> None:
    result = train(SETTINGS.model_copy(update={"unlabeled": 96, "steps": 2}), small_network())
    assert len(result.history) == 2


def test_no_cluster_is_drawn_more_than_twice_as_often_as_the_median_one() -> None:
    clusters = torch.tensor([0] * 1000 + [1] * 10 + [2] * 20 + [4] * 1)
    weights = draw_weights(clusters, largest_share=2.0)
    share = torch.zeros(5, dtype=torch.float64).index_add_(0, clusters, weights)
    # Counts 1000, 10, 20, 1: the (lower) median is 10, so no cluster has more weight than 20 images.
    torch.testing.assert_close(share, torch.tensor([20.0, 10, 20, 0, 1], dtype=torch.float64) / 51)


def test_without_a_cap_all_labels_are_drawn_equally_often() -> None:
    weights = draw_weights(torch.tensor([0] * 1000 + [1] * 10 + [4] * 1), largest_share=None)
    torch.testing.assert_close(weights, torch.full((1011,), 1 / 1011, dtype=torch.float64))


@pytest.mark.parametrize(("setting", "expected"), [(None, 0.1), (0.001, 0.001)])
def test_batch_norm_has_the_momentum_of_the_settings_or_its_own(setting: float | None, expected: float) -> None:
    network = small_network()
    result = train(SETTINGS.model_copy(update={"batch_norm_momentum": setting, "steps": 1}), network)
    norms = [module for module in (*network.modules(), *result.network.modules()) if isinstance(module, nn.BatchNorm2d)]
    assert norms
    assert {norm.momentum for norm in norms} == {expected}


def test_the_average_spans_a_twentieth_of_a_short_schedule() -> None:
    free = JointSettings(ema=None)
    assert momentum(free, 400) == pytest.approx(0.95)
    assert momentum(free, 2**20) == 0.999
    assert momentum(free, 1) == 0.0
    assert momentum(JointSettings(), 400) == 0.999


def test_fixmatch_labels_at_or_above_the_threshold() -> None:
    probs = torch.tensor([[0.75, 0.25], [0.7, 0.3], [0.0, 1.0]])
    assert FixMatch(JointSettings(threshold=0.75), clusters=2).label(probs).tolist() == [0, IGNORE, 1]


def test_freematch_has_a_lower_threshold_for_a_cluster_that_is_predicted_less_often() -> None:
    probs = torch.tensor([[0.9, 0.05, 0.05], [0.8, 0.1, 0.1], [0.3, 0.4, 0.3]])
    algorithm = FreeMatch(JointSettings(), clusters=3)
    algorithm.momentum = 0.5
    labels = algorithm.label(probs)
    confidence = 0.5 / 3 + 0.5 * (0.9 + 0.8 + 0.4) / 3
    shares = [0.5 / 3 + 0.5 * mean for mean in (2.0 / 3, 0.55 / 3, 0.45 / 3)]
    expected = [confidence * share / max(shares) for share in shares]
    torch.testing.assert_close(algorithm.thresholds(), torch.tensor(expected))
    assert labels.tolist() == [0, 0, 1]
    assert expected[1] < 0.4 < expected[0], "cluster 1 passes by its own threshold only"
    fresh = FreeMatch(JointSettings(), clusters=3)
    fresh.restore_(algorithm.state())
    torch.testing.assert_close(fresh.thresholds(), algorithm.thresholds())


@pytest.mark.parametrize(
    ("labeled", "error", "words"),
    [
        (
            Labeled(torch.empty(0).long(), torch.empty(0).long()),
            UserError,
            "no image is reliable, so joint training cannot start",
        ),
        (Labeled(torch.arange(3), torch.arange(2)), ValueError, "3 images do not match 2 labels"),
        (Labeled(torch.arange(2), torch.tensor([0, 3])), ValueError, r"labels must lie in 0\.\.2, got 0\.\.3"),
        (Labeled(torch.tensor([0, 40]), torch.tensor([0, 1])), IndexError, "index 40 is out of bounds"),
    ],
)
def test_bad_labels_are_refused_with_a_message(labeled: Labeled, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        train_jointly(learner(small_network()), IMAGES, labeled, SETTINGS, RUN)


def test_an_infinite_output_stops_training_with_the_step_and_advice() -> None:
    network = small_network()
    with pytest.raises(UserError, match=r"no longer finite at step \d+ .* learning rate below 1e\+30"):
        train(SETTINGS.model_copy(update={"learning_rate": 1e30}), network)


TWO = """
import sys
import torch
sys.path.insert(0, {tests!r})
from test_joint import *
from spice.engine.processes import join_processes

with join_processes(torch.device("cpu")) as processes:
    settings = SETTINGS.model_copy(update=dict(steps=4, algorithm="freematch"))
    result = train(settings, small_network(norm=False), Run(0, processes=processes))
    if processes.first:
        torch.save(result.network.state_dict(), {out!r})
"""


def test_two_processes_train_as_one_without_batch_norm(two_processes: Callable[..., str], tmp_path: Path) -> None:
    """With batch norm they cannot be equal, because each process normalizes over its own half of the batch."""
    out = tmp_path / "weights.pt"
    two_processes(TWO.format(tests=str(Path(__file__).parent), out=str(out)))
    settings = SETTINGS.model_copy(update={"steps": 4, "algorithm": "freematch"})
    alone = train(settings, small_network(norm=False)).network.state_dict()
    for name, tensor in torch.load(out, weights_only=True).items():
        torch.testing.assert_close(tensor, alone[name], rtol=1e-5, atol=1e-6)
