"""Resize, crop, blur, flip and shift, compared with Pillow or with plain loops."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image, ImageFilter
from torch import Tensor

from spice.augment import geometry

BILINEAR = Image.Resampling.BILINEAR


def picture(image: Tensor) -> Image.Image:
    return Image.fromarray(image.permute(1, 2, 0).numpy())


def tensor(photo: Image.Image) -> Tensor:
    return torch.from_numpy(np.array(photo)).permute(2, 0, 1)


def resampled(images: Tensor, box: tuple[int, int, int, int], size: int) -> Tensor:
    top, left, height, width = (np.full(len(images), side, dtype=np.float32) for side in box)
    rows = geometry.resize_matrix(top, height, pixels=images.shape[2], size=size)
    columns = geometry.resize_matrix(left, width, pixels=images.shape[3], size=size)
    return geometry.resample(images.float(), rows, columns)


@pytest.mark.parametrize("box", [(0, 0, 96, 96), (3, 10, 70, 51), (20, 0, 33, 94), (40, 41, 5, 4)])
@pytest.mark.parametrize("size", [16, 32, 96, 120])
def test_crop_and_resize_equal_pillow_within_one_gray_level(
    photos: Tensor, box: tuple[int, int, int, int], size: int
) -> None:
    top, left, height, width = box
    area = (left, top, left + width, top + height)
    theirs = torch.stack([tensor(picture(image).crop(area).resize((size, size), BILINEAR)) for image in photos])
    difference = (resampled(photos, box, size) - theirs).abs()
    assert difference.max() <= 1.5  # one level, and half a level because Pillow rounds
    assert difference.mean() < 0.35


def test_a_crop_does_not_depend_on_pixels_outside_its_box(photos: Tensor) -> None:
    changed = photos.clone()
    changed[:, :, :10] = 0
    changed[:, :, :, 60:] = 255
    box = (10, 5, 50, 55)
    assert torch.equal(resampled(photos, box, 32), resampled(changed, box, 32))


def test_a_mirrored_matrix_reverses_the_line() -> None:
    start, length = np.array([[3, 0], [20, 32]], dtype=np.float32)
    straight = geometry.resize_matrix(start, length, pixels=32, size=16)
    mixed = geometry.resize_matrix(start, length, pixels=32, size=16, flip=np.array([True, False]))
    torch.testing.assert_close(mixed[0], straight[0].flip(0))
    assert torch.equal(mixed[1], straight[1])


@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0, 2.0])
def test_blur_is_a_gaussian(photos: Tensor, sigma: float) -> None:
    size = photos.shape[2]
    matrix = geometry.blur_matrix(np.full(len(photos), sigma, dtype=np.float32), size=size)
    torch.testing.assert_close(matrix.sum(dim=2), torch.ones(len(photos), size))
    ours = geometry.resample(photos.float(), matrix, matrix)
    theirs = torch.stack([tensor(picture(image).filter(ImageFilter.GaussianBlur(sigma))) for image in photos]).float()
    inside = (ours - theirs).abs()[:, :, 8:-8, 8:-8]  # at the borders, Pillow repeats the outermost pixels
    assert inside.mean() < 1.0  # Pillow approximates it by box filters


def test_blur_has_no_denormal_numbers() -> None:
    matrix = geometry.blur_matrix(np.array([0.1, 0.3, 2.0], dtype=np.float32), size=224)
    assert matrix.min() > 1e-20


@pytest.mark.parametrize("size", [32, 50])
def test_the_central_square_is_resized(photos: Tensor, size: int) -> None:
    wide = photos[:, :, 10:70, :90]
    square = wide[:, :, :, 15:75]
    theirs = torch.stack([tensor(picture(image).resize((size, size), BILINEAR)) for image in square])
    assert (geometry.central_square(wide, size).int() - theirs.int()).abs().max() <= 1


def test_images_of_the_right_size_are_not_changed(drawn: Tensor) -> None:
    assert geometry.central_square(drawn, 32) is drawn


def test_shifting_moves_whole_pixels_and_fills_with_black(drawn: Tensor) -> None:
    moves = np.random.default_rng(0).integers(-4, 5, (len(drawn), 2))
    moved = geometry.shifted(drawn, moves)
    for image, result, (y, x) in zip(drawn, moved, moves.tolist(), strict=True):
        expected = torch.zeros_like(image)
        expected[:, max(y, 0) : 32 + min(y, 0), max(x, 0) : 32 + min(x, 0)] = image[
            :, max(-y, 0) : 32 + min(-y, 0), max(-x, 0) : 32 + min(-x, 0)
        ]
        assert torch.equal(result, expected)


@pytest.mark.parametrize("move", [(0, 0), (2, -3), (-4, 4), (31, -31)])
@pytest.mark.parametrize("flip", [False, True])
def test_a_shift_with_reflection_is_a_crop_after_reflection_padding(
    drawn: Tensor, move: tuple[int, int], flip: bool
) -> None:
    moves, count = np.array([move] * len(drawn)), len(drawn)
    images = drawn.flip(3) if flip else drawn
    height, width = images.shape[2:]
    padded = F.pad(images.float(), (31, 31, 31, 31), mode="reflect").byte()
    top, left = 31 - move[0], 31 - move[1]
    expected = padded[:, :, top : top + height, left : left + width]
    assert torch.equal(geometry.shifted_with_reflection(drawn, moves, flip=np.full(count, flip)), expected)


def test_only_chosen_images_are_mirrored(drawn: Tensor) -> None:
    flip = np.arange(len(drawn)) % 3 == 0
    result = geometry.mirrored(drawn, flip)
    assert torch.equal(result[flip], drawn[flip].flip(3))
    assert torch.equal(result[~flip], drawn[~flip])


def test_the_affine_map_of_a_flip_and_a_shift_is_equivalent(drawn: Tensor) -> None:
    random = np.random.default_rng(1)
    moves, flip = random.integers(-4, 5, (len(drawn), 2)), random.random(len(drawn)) < 0.5
    moved = geometry.shifted(drawn, moves, flip=flip)
    assert torch.equal(geometry.affine(drawn, geometry.shift_maps(moves, flip, width=32)), moved)
    assert torch.equal(geometry.shifted(geometry.mirrored(drawn, flip), moves), moved)
