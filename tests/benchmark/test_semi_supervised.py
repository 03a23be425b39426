"""The semi-supervised rivals: their losses are the published ones, they learn, and a stopped training goes on."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from spice.benchmark import mixing
from spice.benchmark.mixing import MixMatch, ReMixMatch, RotationNetwork, mixed, rotated, shares, sharpened
from spice.benchmark.semi import (
    ALGORITHMS,
    UDA,
    MeanTeacher,
    PiModel,
    PseudoLabeling,
    Supervised,
    sigmoid_ramp,
    with_linear_head,
)
from spice.data.images import InMemory
from spice.engine.checkpoints import Checkpoints
from spice.engine.run import Run
from spice.models.backbone import Backbone
from spice.settings import AugmentSettings, JointSettings, Normalization
from spice.stages.joint.algorithms import Algorithm, Batch
from spice.stages.joint.sampling import Labeled
from spice.stages.joint.train import Learner, train_jointly

GRAY = Normalization(mean=(0.5,), std=(0.5,))
CLASSES = 3


class Stripes(InMemory):
    """Images of 8 x 8 pixels whose class is the position of their bright stripe."""

    def __init__(self, count: int = 90) -> None:
        noise = torch.Generator().manual_seed(0)
        self.classes = torch.arange(count) % CLASSES
        pixels = torch.randint(0, 90, (count, 1, 8, 8), generator=noise)
        for image, place in zip(pixels, self.classes.tolist(), strict=True):
            image[:, 3 * place : 3 * place + 2] += 150
        super().__init__(pixels.byte())


class Small(Backbone):
    """One convolution, whose map is the features."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.features = 8 * 64

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.layers(images).flatten(start_dim=1)
        return features


def network(algorithm: str) -> nn.Module:
    torch.manual_seed(0)
    return with_linear_head(Small(), CLASSES, algorithm)


def trained(name: str, *, steps: int = 60, run: Run | None = None) -> nn.Module:
    images, given = Stripes(), torch.arange(9)
    augment = AugmentSettings(flip=False, color=False, rotation=False, operations=1, cutout=0.1, shift=1)
    settings = JointSettings(
        algorithm=ALGORITHMS[name], steps=steps, labeled=12, unlabeled=24, learning_rate=0.02, ema=None, augment=augment
    )
    learner = Learner.on_images(network(ALGORITHMS[name]), CLASSES, augment, size=8, normalization=GRAY)
    return train_jointly(learner, images, Labeled(given, images.classes[given]), settings, run or Run()).network


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_learns_stripes_from_nine_labels(name: str) -> None:
    images = Stripes()
    found = trained(name)(images.pixels.float() / 127.5 - 1).argmax(dim=1)
    assert (found == images.classes).float().mean() > 0.9


@pytest.mark.parametrize("name", ["Mean Teacher", "ReMixMatch", "supervised"])
def test_a_stopped_training_resumes_as_if_never_stopped(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Checkpoints, "due", lambda _: True)

    def stop(task: str, done: int, total: int, figures: object = None) -> None:
        if done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(name, steps=12, run=Run(0, tmp_path, progress=stop))
    seen: list[int] = []
    resumed = trained(name, steps=12, run=Run(0, tmp_path, progress=lambda task, done, *_: seen.append(done)))
    assert seen[0] == 7  # the step whose checkpoint was not written, and none before it
    whole = trained(name, steps=12)
    for ours, theirs in zip(resumed.state_dict().values(), whole.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)


class Fixed(nn.Module):
    """A network whose logits are its inputs, times a weight that can learn."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, images: Tensor) -> Tensor:
        return self.weight * images.flatten(start_dim=1)


def batch(*others: Tensor, step: int = 16_384, steps: int = 16_384, average: nn.Module | None = None) -> Batch:
    labeled = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]]).view(2, 1, 1, 3)
    views = tuple(view.view(-1, 1, 1, 3) for view in others)
    random = torch.Generator().manual_seed(0)
    return Batch(Fixed(), average or Fixed(), labeled, torch.tensor([0, 2]), views, step, steps, random)


def loss(algorithm: type[Algorithm], batch: Batch) -> Tensor:
    return algorithm(JointSettings(), CLASSES).loss(batch)


def supervised_part() -> float:
    return loss(Supervised, batch()).item()


def test_the_supervised_loss_is_the_mean_cross_entropy() -> None:
    first = -float(torch.tensor([2.0, 0.0, 0.0]).log_softmax(dim=0)[0])
    second = -float(torch.tensor([0.0, 1.0, 0.0]).log_softmax(dim=0)[2])
    assert supervised_part() == pytest.approx((first + second) / 2)


def test_the_pi_model_adds_twenty_times_the_squared_distance_of_two_views() -> None:
    one, other = torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[0.0, 0.5, 0.0]])
    apart = float((one.softmax(dim=1) - other.softmax(dim=1)).square().sum()) / 3
    assert loss(PiModel, batch(one, other)).item() == pytest.approx(supervised_part() + 20 * apart)
    begun = loss(PiModel, batch(one, other, step=0)).item()
    assert begun == pytest.approx(supervised_part() + 20 * apart * sigmoid_ramp(batch(step=0)))


def test_mean_teacher_is_taught_by_the_average_which_gets_no_gradient() -> None:
    one, other = torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[0.0, 0.5, 0.0]])
    average = Fixed()
    with torch.no_grad():
        average.weight.fill_(3.0)
    found = loss(MeanTeacher, batch(one, other, average=average))
    apart = float((one.softmax(dim=1) - (3 * other).softmax(dim=1)).square().sum()) / 3
    assert float(found) == pytest.approx(supervised_part() + 50 * apart)
    found.backward()  # type: ignore[no-untyped-call]
    assert average.weight.grad is None


def test_pseudo_labeling_learns_sure_answers_alone_over_all_images() -> None:
    sure, unsure = torch.tensor([9.0, 0.0, 0.0]), torch.tensor([1.0, 0.0, 0.0])
    learned = batch(torch.stack([sure, unsure]))
    assert loss(PseudoLabeling, learned).item() == pytest.approx(
        supervised_part() - float(sure.log_softmax(dim=0)[0]) / 2
    )
    assert learned.confident == 0.5


def test_uda_teaches_the_strong_view_a_sharpened_answer_where_the_weak_one_is_sure() -> None:
    sure, unsure = torch.tensor([4.0, 0.0, 0.0]), torch.tensor([1.0, 0.5, 0.0])
    strong = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
    wanted = (sure / 0.4).softmax(dim=0)
    expected = -float((wanted * strong[0].log_softmax(dim=0)).sum()) / 2
    assert loss(UDA, batch(torch.stack([sure, unsure]), strong)).item() == pytest.approx(supervised_part() + expected)


def test_mixmatch_sharpens_and_keeps_the_larger_share_of_each_image() -> None:
    probs = torch.tensor([[0.5, 0.3, 0.2]])
    powers = [0.5**2, 0.3**2, 0.2**2]
    assert sharpened(probs, 0.5)[0].tolist() == pytest.approx([power / sum(powers) for power in powers])
    drawn = shares(2000, torch.Generator().manual_seed(0), alpha=0.75)
    assert float(drawn.min()) >= 0.5
    # E max(b, 1 - b) of Beta(3/4, 3/4), by numerical integration.
    grid = torch.linspace(1e-6, 1 - 1e-6, 400_001, dtype=torch.float64)
    density = (grid * (1 - grid)) ** -0.25
    mean = float((torch.maximum(grid, 1 - grid) * density).sum() / density.sum())
    assert float(drawn.mean()) == pytest.approx(mean, abs=0.01)


def test_mixmatch_without_mixing_is_cross_entropy_and_squared_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixing, "shares", lambda count, random, *, alpha: torch.ones(count))
    one, other = torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[0.0, 0.5, 0.0]])
    guess = sharpened((one.softmax(dim=1) + other.softmax(dim=1)) / 2, 0.5)
    apart = sum(float((view.softmax(dim=1) - guess).square().sum()) for view in (one, other)) / 6
    assert loss(MixMatch, batch(one, other)).item() == pytest.approx(supervised_part() + 75 * apart)
    assert loss(MixMatch, batch(one, other, step=4_096)).item() == pytest.approx(supervised_part() + 75 / 4 * apart)


def test_what_is_mixed_of_images_is_mixed_of_their_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixing, "shares", lambda count, random, *, alpha: torch.linspace(0.5, 1, count))
    labels = torch.eye(6)
    images, targets = mixed(labels.view(6, 1, 1, 6), labels, torch.Generator().manual_seed(0))
    assert torch.equal(images.view(6, 6), targets)
    order = torch.randperm(6, generator=torch.Generator().manual_seed(0)).tolist()
    for row, (share, other) in enumerate(zip(torch.linspace(0.5, 1, 6).tolist(), order, strict=True)):
        expected = [share * (k == row) + (1 - share) * (k == other) for k in range(6)]
        assert targets[row].tolist() == pytest.approx(expected)


class FixedAndRotated(RotationNetwork):
    """Logits are the first row of an image, and those of its rotation the sums of its four rows."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, images: Tensor) -> Tensor:
        return self.weight * images[:, 0, 0, :CLASSES]

    def predict_rotation(self, images: Tensor) -> Tensor:
        return self.weight * images[:, 0].sum(dim=2)


def test_remixmatch_without_mixing_is_the_sum_of_its_four_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixing, "shares", lambda count, random, *, alpha: torch.ones(count))
    random = torch.Generator().manual_seed(0)
    labeled, weak, *strong = (torch.randn(2, 1, 4, 4, generator=random) for _ in range(10))
    given = torch.tensor([0, 2])
    state = torch.Generator().manual_seed(7)
    found = loss(
        ReMixMatch, Batch(FixedAndRotated(), FixedAndRotated(), labeled, given, (weak, *strong), 8_192, 9, state)
    )

    def entropy(view: Tensor, wanted: Tensor) -> float:
        return -float((wanted * view[:, 0, 0, :3].log_softmax(dim=1)).sum(dim=1).mean())

    probs = weak[:, 0, 0, :3].softmax(dim=1)
    ratio = (torch.tensor([0.5, 0.0, 0.5]) + 1e-6) / (probs.mean(dim=0) + 1e-6)
    guess = (probs * ratio) / (probs * ratio).sum(dim=1, keepdim=True)
    guess = guess**2 / (guess**2).sum(dim=1, keepdim=True)
    others = sum(entropy(view, guess) for view in (weak, *strong)) / 9
    state = torch.Generator().manual_seed(7)
    torch.randperm(20, generator=state)  # the order of mixing, drawn before
    quarters = torch.randint(4, (2,), generator=state)
    rotations = [image.rot90(int(times), dims=(1, 2))[0] for image, times in zip(strong[0], quarters, strict=True)]
    rotation_loss = -sum(
        float(rows.sum(dim=1).log_softmax(dim=0)[times]) for rows, times in zip(rotations, quarters, strict=True)
    )
    expected = (
        entropy(labeled, torch.eye(3)[given]) + 0.75 * others + 0.25 * entropy(strong[0], guess) + rotation_loss / 4
    )
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_turning_four_times_by_a_quarter_changes_nothing() -> None:
    images, quarters = torch.randn(4, 1, 3, 3), torch.arange(4)
    once = rotated(images, quarters)
    assert torch.equal(once[1], images[1].rot90(1, dims=(1, 2)))
    for _ in range(3):
        once = rotated(once, quarters)
    assert torch.equal(once, images)


def test_alignment_moves_predictions_to_the_labels_distribution_and_forgets() -> None:
    algorithm = ReMixMatch(JointSettings(), 2)
    given, probs = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[0.9, 0.1]])
    assert algorithm.aligned(probs, given)[0].tolist() == pytest.approx([0.5, 0.5], abs=1e-4)
    for _ in range(200):
        algorithm.aligned(torch.tensor([[0.2, 0.8]]), given)
    assert algorithm.predicted.shape == (128, 2)
    assert algorithm.aligned(torch.tensor([[0.2, 0.8]]), given)[0].tolist() == pytest.approx([0.5, 0.5], abs=1e-4)
    resumed = ReMixMatch(JointSettings(), 2)
    resumed.restore_(algorithm.state())
    assert torch.equal(resumed.aligned(probs, given), algorithm.aligned(probs, given))


def test_weights_rise_to_one_and_stay() -> None:
    assert sigmoid_ramp(batch(step=0, steps=100)) == pytest.approx(2.718281828**-5)
    assert sigmoid_ramp(batch(step=40, steps=100)) == sigmoid_ramp(batch(step=100, steps=100)) == 1.0
