"""The distributions of the random parameters of views."""

import numpy as np
import pytest
import torch

from spice.augment import draws

COUNT = 20_000


def numbers(columns: int = draws.CROP_COLUMNS) -> draws.Uniform:
    return draws.Uniform(COUNT, columns, torch.Generator().manual_seed(0))


def test_integers_are_uniform_with_both_ends() -> None:
    counts = np.bincount(draws.integers(-4, 4, numbers(1).column()) + 4, minlength=9)
    assert len(counts) == 9
    assert np.abs(counts - COUNT / 9).max() < 5 * (COUNT / 9) ** 0.5


def test_integers_never_exceed_the_upper_end() -> None:
    assert draws.integers(0, 13, np.array([1.0 - 2.0**-24], dtype=np.float32)).item() == 13


def test_crops_are_inside_the_image_with_the_set_area_and_aspect_ratio() -> None:
    boxes = draws.crops(numbers(), 96, 96, scale=(0.2, 1.0), ratio=(3 / 4, 4 / 3))
    assert boxes.top.min() >= 0
    assert boxes.left.min() >= 0
    assert (boxes.top + boxes.height).max() <= 96
    assert (boxes.left + boxes.width).max() <= 96
    share = boxes.height * boxes.width / 96**2
    assert share.min() > 0.18  # a little below 0.2, because of rounding to whole pixels
    aspect = boxes.width / boxes.height
    assert aspect.min() > 0.72
    assert aspect.max() < 1.39
    assert abs(np.log(aspect).mean()) < 0.01  # as often tall as wide


def test_the_area_of_a_crop_is_uniform_if_every_box_fits() -> None:
    boxes = draws.crops(numbers(), 400, 400, scale=(0.2, 0.7), ratio=(3 / 4, 4 / 3))
    share = np.sort(boxes.height * boxes.width / 400**2)
    expected = np.linspace(0.2, 0.7, COUNT)
    assert np.abs(share - expected).max() < 0.01  # Kolmogorov-Smirnov, in units of the share


def test_crops_are_uniform_over_positions() -> None:
    boxes = draws.crops(numbers(), 96, 96, scale=(0.2, 0.3), ratio=(1.0, 1.0))
    room = 96 - boxes.height
    assert abs((boxes.top / room).mean().item() - 0.5) < 0.01
    assert abs((boxes.left / room).mean().item() - 0.5) < 0.01
    assert abs(np.corrcoef(boxes.top / room, boxes.left / room)[0, 1]) < 0.03
    assert (boxes.top == 0).any()
    assert (boxes.top == room).any()


def test_an_image_that_no_box_fits_gives_its_center() -> None:
    boxes = draws.crops(numbers(), 300, 10, scale=(0.9, 1.0), ratio=(3 / 4, 4 / 3))
    assert set(boxes.width.tolist()) == {10}
    assert set(boxes.height.tolist()) == {13}  # 10 / (3 / 4)
    assert set(boxes.top.tolist()) == {143}


def test_an_image_has_the_same_draws_in_any_share_of_the_batch() -> None:
    whole = draws.Uniform(10, 3, torch.Generator().manual_seed(3)).columns(3)
    rows = torch.tensor([1, 3, 5, 7, 9])
    share = draws.Uniform(5, 3, torch.Generator().manual_seed(3), rows=rows, of=10).columns(3)
    assert np.array_equal(share, whole[rows.numpy()])


def test_rows_without_the_size_of_the_batch_are_refused() -> None:
    with pytest.raises(ValueError, match=r"2 images need 2 rows and the size of the whole batch, got 3, None"):
        draws.Uniform(2, 3, torch.Generator(), rows=torch.tensor([1, 2, 3]))


def test_taking_more_numbers_than_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cannot take 4 numbers of 3"):
        draws.Uniform(2, 3, torch.Generator()).columns(4)
