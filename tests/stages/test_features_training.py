"""The training of stage 1: a stopped run resumes bit for bit, health is reported, errors are clear."""

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from spice.augment import Contrastive, Plain
from spice.engine.checkpoints import Checkpoints
from spice.engine.run import Run
from spice.errors import UserError
from spice.models.encoders import load_encoder
from spice.models.networks import PartialWhitening, WhitenedPatchesNet
from spice.models.weights import save_network
from spice.settings import IMAGENET_GRAY, AugmentSettings, FeatureSettings
from spice.stages.features.train import FeatureModel, build_pretext, schedule_for, train_features, view_pairs

METHODS = ("moco", "simclr", "byol")


class StopError(Exception):
    pass


class SavesOften(Run):
    """A run that saves a checkpoint after every step."""

    def checkpoints(self, identity: Mapping[str, object], *, every_seconds: float = 0.0) -> Checkpoints:
        return super().checkpoints(identity, every_seconds=every_seconds)


class Shapes:
    """Gray images of squares and stripes at random positions. Reading fails after `stop_after` batches."""

    size, channels = 16, 1

    def __init__(self, count: int = 40, *, stop_after: int | None = None) -> None:
        generator = torch.Generator().manual_seed(1)
        self.pixels = torch.randint(0, 40, (count, 1, 16, 16), dtype=torch.uint8, generator=generator)
        for number, image in enumerate(self.pixels):
            start = int(torch.randint(0, 8, (1,), generator=generator))
            image[:, start : start + 6, start : start + 6 if number % 2 else None] = 220
        self.left = stop_after

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, positions: Tensor) -> Tensor:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise StopError
        return self.pixels[positions]


def settings(method: str = "moco", **changes: object) -> FeatureSettings:
    small = {"network": "resnet10", "width": 4, "batch": 8, "epochs": 3, "projection": 6}
    return FeatureSettings.model_validate({"method": method} | small | changes)


def same(left: FeatureModel, right: FeatureModel) -> bool:
    pairs = zip(left.network.state_dict().values(), right.network.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs) and left.health == right.health


def test_a_step_has_two_contrastive_views_of_its_images(monkeypatch: pytest.MonkeyPatch) -> None:
    images, chosen, run, taken = Shapes(), settings(), Run(seed=3), list[Tensor]()
    take = images.take

    def noted(positions: Tensor) -> Tensor:
        taken.append(take(positions))
        return taken[-1]

    monkeypatch.setattr(images, "take", noted)
    contrastive = Contrastive(chosen.augment, 16, IMAGENET_GRAY)
    for step, *views in view_pairs(images, chosen, schedule_for(len(images), chosen), run):
        for number, view in enumerate(views):
            assert torch.equal(view, contrastive(taken[-1], run.generator("features", "view", number, step)))
    assert len(taken) == 15


@pytest.mark.parametrize("method", METHODS)
def test_a_stopped_run_resumes_bit_for_bit(method: str, tmp_path: Path) -> None:
    whole = train_features(Shapes(), settings(method), Run())
    for stop in (3, 5, 4):  # in the first epoch, at the end of an epoch, in the last epoch
        with pytest.raises(StopError):
            train_features(Shapes(stop_after=stop), settings(method), SavesOften(folder=tmp_path))
    resumed = train_features(Shapes(), settings(method), Run(folder=tmp_path))
    assert same(whole, resumed)
    assert len(resumed.health) == 3
    # A finished run reads no images.
    assert same(whole, train_features(Shapes(stop_after=0), settings(method), Run(folder=tmp_path)))


def test_whitened_patches_are_fitted_to_the_images_and_stay_fixed_during_training(tmp_path: Path) -> None:
    chosen = settings("simclr", network="whitened-patches")
    fresh = build_pretext(Shapes(), chosen, schedule_for(40, chosen), Run()).network
    whole = train_features(Shapes(), chosen, Run())
    with pytest.raises(StopError):
        train_features(Shapes(stop_after=5), chosen, SavesOften(folder=tmp_path))
    assert same(whole, train_features(Shapes(), chosen, Run(folder=tmp_path)))
    assert isinstance(fresh, WhitenedPatchesNet)
    assert isinstance(whole.network, WhitenedPatchesNet)
    torch.testing.assert_close(whole.network.whitening.weight, fresh.whitening.weight, rtol=0, atol=0)
    darker = Shapes()
    darker.pixels //= 4
    other = build_pretext(darker, chosen, schedule_for(40, chosen), Run()).network
    assert isinstance(other, WhitenedPatchesNet)
    assert other.whitening.weight.abs().mean() > 2 * fresh.whitening.weight.abs().mean()


def test_whitened_features_have_similar_variances_and_are_the_same_after_resuming(tmp_path: Path) -> None:
    chosen = settings("simclr", whitening=1.0)
    plain, whole = train_features(Shapes(), settings("simclr"), Run()), train_features(Shapes(), chosen, Run())
    assert isinstance(whole.network, PartialWhitening)
    assert whole.card.partial_whitening
    assert not plain.card.partial_whitening
    network = dict(plain.network.state_dict())
    assert all(torch.equal(value, network[name]) for name, value in whole.network.network.state_dict().items())
    images = Plain(AugmentSettings(), 16, whole.card.normalization)(Shapes().pixels)
    with torch.no_grad():
        before, after = (torch.linalg.eigvalsh(each.network(images).T.cov()).flip(0) for each in (plain, whole))
    assert before[3] < 0.5 * before[0]
    torch.testing.assert_close(after[3], before[0], rtol=1e-2, atol=0)
    with pytest.raises(StopError):
        train_features(Shapes(stop_after=5), chosen, SavesOften(folder=tmp_path))
    assert same(whole, train_features(Shapes(), chosen, Run(folder=tmp_path)))


def test_the_amount_of_whitening_is_chosen_and_can_be_changed_after_training(tmp_path: Path) -> None:
    chosen = settings("simclr", whitening="auto")
    found = train_features(Shapes(), chosen, Run(folder=tmp_path))
    assert isinstance(found.network, PartialWhitening)
    assert same(found, train_features(Shapes(), chosen, Run()))
    # Plain images and two views are read, and nothing is trained again.
    assert same(found, train_features(Shapes(stop_after=3), chosen, Run(folder=tmp_path)))
    plain = train_features(Shapes(stop_after=0), settings("simclr"), Run(folder=tmp_path))
    assert same(plain, train_features(Shapes(), settings("simclr"), Run()))
    with pytest.raises(ValueError, match="whitening"):
        settings(whitening="lots")
    with pytest.raises(ValueError, match="whitening"):
        settings(whitening=1.5)


def test_views_are_small_in_the_early_share_of_the_steps() -> None:
    chosen = settings(early_view_size=8, view_size=12, early=0.6)  # of 15 steps
    schedule = schedule_for(40, chosen)
    sizes = [first.shape[3] for _, first, _ in view_pairs(Shapes(), chosen, schedule, Run())]
    assert sizes == [8] * 9 + [12] * 6


def test_a_run_with_another_seed_or_setting_cannot_resume(tmp_path: Path) -> None:
    train_features(Shapes(), settings(), Run(folder=tmp_path))
    with pytest.raises(UserError, match="seed was 0, is 1"):
        train_features(Shapes(), settings(), Run(seed=1, folder=tmp_path))
    with pytest.raises(UserError, match=r"temperature was 0\.2, is 0\.3"):
        train_features(Shapes(), settings(temperature=0.3), Run(folder=tmp_path))


def test_the_seed_decides_everything() -> None:
    torch.manual_seed(3)
    first = train_features(Shapes(), settings(), Run())
    torch.manual_seed(4)
    assert same(first, train_features(Shapes(), settings(), Run()))
    assert not same(first, train_features(Shapes(), settings(), Run(seed=1)))


def test_a_loss_that_is_not_finite_stops_the_run_with_advice(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"became (nan|inf) at step [0-9]+: lower the learning rate \(now 1e\+30\)"):
        train_features(Shapes(), settings(learning_rate=1e30), SavesOften(folder=tmp_path))


def test_progress_has_step_loss_and_speed_and_the_log_has_health(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[tuple[str, int, int, dict[str, float]]] = []
    with caplog.at_level(logging.DEBUG, logger="spice"):
        train_features(Shapes(), settings(), Run(progress=lambda *call: calls.append(call)))
    assert [call[:3] for call in calls] == [("features", step, 15) for step in range(16)]  # 0: before the first step
    assert all(set(call[3]) == {"loss", "images/s"} for call in calls[1:])
    lines = [record.message for record in caplog.records if "epoch" in record.message]
    assert len(lines) == 3
    assert lines[0].startswith("features, epoch 1 of 3: alignment ")


def test_training_learns_to_distinguish_images() -> None:
    """Chance is ln(127) = 4.84 with 64 pairs of views."""
    losses: list[float] = []
    calm = AugmentSettings(color=False)
    model = train_features(
        Shapes(320),
        settings("simclr", batch=64, epochs=6, learning_rate=0.1, augment=calm),
        Run(progress=lambda *call: losses.extend(figures["loss"] for figures in call[3:])),
    )
    assert sum(losses[:5]) / 5 > 4.75
    assert sum(losses[-5:]) / 5 < 4.7
    assert not model.network.training


def test_the_model_can_be_loaded_as_an_encoder(tmp_path: Path) -> None:
    model = train_features(Shapes(), settings(), Run())
    save_network(tmp_path / "encoder.safetensors", model.network, model.card)
    encoder = load_encoder(str(tmp_path / "encoder.safetensors"))
    assert (encoder.size, encoder.channels, encoder.features) == (16, 1, 32)
    views = Plain(AugmentSettings(), encoder.size, encoder.normalization)(Shapes().pixels)
    with torch.no_grad():
        torch.testing.assert_close(encoder.encode(views), model.network(views), rtol=1e-4, atol=1e-4)


def test_few_images_are_one_batch_and_too_few_are_refused() -> None:
    assert schedule_for(5, settings()).batch == 5
    assert schedule_for(5, settings()).steps == 3
    assert schedule_for(20, settings()).per_epoch == 2
    with pytest.raises(UserError, match="1 images are too few to train on"):
        schedule_for(1, settings())


def test_views_may_be_smaller_than_the_images() -> None:
    assert train_features(Shapes(), settings(view_size=8), Run()).network.features == 32
