"""Presets of stage 1: that of the paper, and those for a CPU."""

import pytest

from spice import presets
from spice.errors import UserError
from spice.stages.features.moco import queue_length
from spice.stages.features.train import schedule_for


def test_the_preset_of_the_paper_is_moco_as_published() -> None:
    settings = presets.paper_features("cifar10")
    assert (settings.method, settings.temperature, settings.momentum) == ("moco", 0.2, 0.999)
    assert (settings.learning_rate, settings.batch, settings.weight_decay, settings.epochs) == (0.015, 128, 1e-4, 1000)
    assert settings.augment.crop_scale == (0.2, 1.0)
    assert queue_length(50_000, settings) == 12_800
    assert presets.paper_features("stl10").network == "resnet34"
    with pytest.raises(UserError, match="no data set 'mnist'; choose from stl10, cifar10"):
        presets.paper_features("mnist")


def test_on_a_cpu_the_amount_of_work_does_not_grow_with_the_collection() -> None:
    for images in (7_500, 50_000, 200_000):
        work = schedule_for(images, presets.features_on_cpu(images=images, size=32)).steps * 256
        assert 590_000 < work < 820_000
    assert schedule_for(1_797, presets.features_on_cpu(images=1_797, size=16)).epochs == 100


def test_views_are_half_and_then_three_quarters_of_the_side_and_digits_are_not_mirrored() -> None:
    settings = presets.features_on_cpu(images=1_797, size=32, flip=False)
    assert (settings.early_view_size, settings.view_size) == (16, 24)
    assert not settings.augment.flip
    tiny = presets.features_on_cpu(images=1_797, size=8)
    assert (tiny.early_view_size, tiny.view_size) == (8, 8)


def test_features_are_whitened_on_a_cpu_but_not_in_the_paper() -> None:
    assert presets.features_on_cpu(images=1_797, size=32).whitening == "auto"
    assert presets.paper_features("cifar10").whitening == 0.0
