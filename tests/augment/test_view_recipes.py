"""Recipes of views: shapes, ranges, independence of images, determinism, and options that are off."""

import pytest
import torch
from torch import Tensor, nn

from spice.augment import Contrastive, Plain, Recipe, Strong, Weak, recipes
from spice.settings import IMAGENET, AugmentSettings, Normalization

RECIPES: tuple[type[Recipe], ...] = (Plain, Weak, Strong, Contrastive)
RANDOM: tuple[type[Recipe], ...] = (Weak, Strong, Contrastive)
GRAY = Normalization(mean=(0.5,), std=(0.25,))
UNCHANGED = Normalization(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
PLACES = torch.linspace(0, 255, 32).to(torch.uint8).view(1, 1, 1, 32).expand(64, 3, 32, 32).contiguous()


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def built(
    recipe: type[Recipe],
    *,
    size: int = 32,
    normalization: Normalization = IMAGENET,
    settings: AugmentSettings | None = None,
) -> Recipe:
    return recipe(settings or AugmentSettings(), size=size, normalization=normalization)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("height", "width", "size"), [(32, 32, 32), (48, 48, 32), (40, 56, 24), (20, 20, 33)])
def test_views_have_the_requested_size(recipe: type[Recipe], height: int, width: int, size: int) -> None:
    images = torch.randint(0, 256, (5, 3, height, width), dtype=torch.uint8, generator=seeded())
    views = built(recipe, size=size)(images, seeded())
    assert views.shape == (5, 3, size, size)
    assert views.dtype == torch.float32
    assert torch.isfinite(views).all()


@pytest.mark.parametrize("recipe", RECIPES)
def test_views_stay_between_normalized_black_and_white(photos: Tensor, recipe: type[Recipe]) -> None:
    views = built(recipe, size=photos.shape[2])(photos, seeded())
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (IMAGENET.mean, IMAGENET.std))
    assert (views >= -mean / std - 1e-5).all()
    assert (views <= (1.0 - mean) / std + 1e-5).all()


def test_plain_is_the_image_normalized(photos: Tensor) -> None:
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (IMAGENET.mean, IMAGENET.std))
    expected = (photos / 255.0 - mean) / std
    torch.testing.assert_close(Plain(AugmentSettings(), photos.shape[2], IMAGENET)(photos), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("recipe", RANDOM)
def test_the_generator_decides_everything(drawn: Tensor, recipe: type[Recipe]) -> None:
    views = built(recipe)
    assert torch.equal(views(drawn, seeded(1)), views(drawn, seeded(1)))
    assert not torch.equal(views(drawn, seeded(1)), views(drawn, seeded(2)))


@pytest.mark.parametrize("recipe", RANDOM)
def test_two_images_of_a_batch_get_different_views(recipe: type[Recipe]) -> None:
    same = torch.randint(0, 256, (1, 3, 32, 32), dtype=torch.uint8, generator=seeded()).expand(24, -1, -1, -1)
    views = built(recipe)(same.contiguous(), seeded())
    assert len({view.numpy().tobytes() for view in views}) >= 20


@pytest.mark.parametrize("recipe", RANDOM)
def test_a_view_does_not_depend_on_the_other_images(drawn: Tensor, recipe: type[Recipe]) -> None:
    changed = drawn.clone()
    changed[::2] = 255 - changed[::2]
    before, after = (built(recipe)(images, seeded()) for images in (drawn, changed))
    assert torch.equal(before[1::2], after[1::2])
    assert not torch.equal(before[::2], after[::2])


@pytest.mark.parametrize("recipe", RANDOM)
def test_two_processes_make_the_same_views_as_one(drawn: Tensor, recipe: type[Recipe]) -> None:
    alone = built(recipe)(drawn, seeded())
    for rank in range(2):
        rows = torch.arange(rank, len(drawn), 2)
        share = built(recipe)(drawn[rows], seeded(), rows=rows, of=len(drawn))
        torch.testing.assert_close(share, alone[rows], rtol=0, atol=1e-5)


@pytest.mark.parametrize("recipe", RANDOM)
def test_portions_for_the_cache_do_not_change_views(
    drawn: Tensor, recipe: type[Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = built(recipe)(drawn, seeded())
    monkeypatch.setattr(recipes, "CACHED_FLOATS", 3 * 32 * 32 * 3)
    torch.testing.assert_close(built(recipe)(drawn, seeded()), whole, rtol=0, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_strong_views_are_the_same_one_by_one_and_batched(
    photos: Tensor, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = photos[:, :channels].repeat(4, 1, 1, 1)
    strong = built(Strong, size=photos.shape[2], normalization=IMAGENET if channels == 3 else GRAY)
    views = []
    for side in (1, 10_000):  # every image counts as large, or none does
        monkeypatch.setattr(recipes, "ONE_BY_ONE_FROM", side)
        views.append(strong(images, seeded()))
    difference = (views[0] - views[1]).abs() * 255.0 * min(strong.normalization.std)  # in gray levels
    # Rounding by one level may grow if equalize follows, and geometry may round to a neighboring pixel.
    assert (difference > 1.01).float().mean() < 0.005
    assert difference.mean() < 0.1


@pytest.mark.parametrize("recipe", RECIPES)
def test_images_are_not_changed(drawn: Tensor, recipe: type[Recipe]) -> None:
    before = drawn.clone()
    built(recipe)(drawn, seeded())
    assert torch.equal(drawn, before)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_network_can_learn_from_views(drawn: Tensor, recipe: type[Recipe]) -> None:
    layer = nn.Conv2d(3, 2, 3)
    layer(built(recipe)(drawn, seeded())).sum().backward()
    assert layer.weight.grad is not None


@pytest.mark.parametrize("recipe", RECIPES)
def test_an_empty_batch_gives_no_views(recipe: type[Recipe]) -> None:
    assert built(recipe)(torch.empty(0, 3, 32, 32, dtype=torch.uint8), seeded()).shape == (0, 3, 32, 32)


@pytest.mark.parametrize("recipe", RECIPES)
def test_gray_pictures_stay_gray(drawn: Tensor, recipe: type[Recipe]) -> None:
    views = built(recipe, normalization=GRAY)(drawn[:, :1].contiguous(), seeded())
    assert views.shape == (len(drawn), 1, 32, 32)


@pytest.mark.parametrize("recipe", RANDOM)
def test_a_gray_picture_is_treated_like_its_copy_in_three_channels(drawn: Tensor, recipe: type[Recipe]) -> None:
    gray = drawn[:, :1].contiguous()
    one = built(recipe, normalization=Normalization(mean=(0.0,), std=(1.0,)))(gray, seeded())
    three = built(recipe, normalization=UNCHANGED)(gray.repeat(1, 3, 1, 1), seeded())
    torch.testing.assert_close(one.expand(-1, 3, -1, -1), three, rtol=0, atol=1.5 / 255.0)


@pytest.mark.parametrize("recipe", RANDOM)
def test_without_flip_nothing_is_mirrored(recipe: type[Recipe]) -> None:
    # Brightness rises from left to right. Only a flip reverses this.
    def rising(flip: bool) -> Tensor:
        settings = AugmentSettings(flip=flip, color=False, rotation=False, cutout=0.0)
        views = built(recipe, settings=settings, normalization=UNCHANGED)(PLACES, seeded())
        return views[..., 18:26].mean(dim=(1, 2, 3)) > views[..., 6:14].mean(dim=(1, 2, 3))

    assert rising(flip=False).all()
    assert 0.3 < rising(flip=True).float().mean() < 0.7


def test_without_color_contrastive_views_keep_their_colors() -> None:
    flat = torch.tensor([200, 100, 40], dtype=torch.uint8).view(1, 3, 1, 1).expand(64, 3, 32, 32).contiguous()
    recipe = built(Contrastive, settings=AugmentSettings(color=False), normalization=UNCHANGED)
    torch.testing.assert_close(recipe(flat, seeded()), flat / 255.0, rtol=0, atol=1e-4)
    with_color = built(Contrastive, normalization=UNCHANGED)(flat, seeded())
    assert (with_color - flat / 255.0).abs().mean() > 0.02


def test_contrastive_views_change_colors_like_moco_v2() -> None:
    """ColorJitter(0.4, 0.4, 0.4, 0.1) with probability 0.8, then gray with probability 0.2."""

    def colors(*channels: int) -> Tensor:
        flat = torch.tensor(channels, dtype=torch.uint8).view(1, 3, 1, 1).expand(3000, 3, 8, 8).contiguous()
        return built(Contrastive, size=8, normalization=UNCHANGED)(flat, seeded())[:, :, 4, 4] * 255

    seen, brown = colors(120, 80, 60), torch.tensor([120.0, 80.0, 60.0])
    gray = seen.amax(dim=1) - seen.amin(dim=1) < 0.1
    assert gray.float().mean().item() == pytest.approx(0.2, abs=0.03)
    assert ((seen - brown).abs().amax(dim=1) < 0.1).float().mean().item() == pytest.approx(0.2 * 0.8, abs=0.03)
    # Only brightness changes a gray color.
    ratio = colors(100, 100, 100).mean(dim=1) / 100
    assert (ratio.min().item(), ratio.max().item()) == pytest.approx((0.6, 1.4), abs=0.01)
    # Only hue turns a color about the gray axis, by at most a tenth of a circle.
    chroma, start = (color - color.mean(dim=-1, keepdim=True) for color in (seen[~gray], brown))
    turned = torch.rad2deg(torch.cosine_similarity(chroma, start[None], dim=1).clamp(-1, 1).acos())
    assert turned.max().item() == pytest.approx(36, abs=1)
    # Contrast and saturation scale a color's distance from gray, and so does brightness.
    scaled = chroma.norm(dim=1) / start.norm()
    assert (scaled.min().item(), scaled.max().item()) == pytest.approx((0.6**3, 1.4**3), rel=0.3)


def test_contrastive_views_have_the_crops_and_blur_of_moco_v2() -> None:
    assert AugmentSettings().crop_scale == (0.2, 1.0)
    assert (recipes.ASPECT, recipes.BLUR, recipes.BLUR_CHANCE) == ((3 / 4, 4 / 3), (0.1, 2.0), 0.5)


def test_without_blur_half_of_the_contrastive_views_are_sharper_and_half_the_same(photos: Tensor) -> None:
    def rough(views: Tensor) -> Tensor:
        return views.diff(dim=3).abs().mean(dim=(1, 2, 3))

    images = photos.repeat(40, 1, 1, 1)[:200]
    sharp = built(Contrastive, settings=AugmentSettings(blur=False))(images, seeded())
    blurred = built(Contrastive)(images, seeded())
    same = (sharp - blurred).abs().amax(dim=(1, 2, 3)) < 1e-4
    assert 0.3 < same.float().mean() < 0.7
    assert (rough(sharp) > rough(blurred))[~same].float().mean() > 0.9


def test_options_exclude_operations() -> None:
    def names(settings: AugmentSettings) -> set[str]:
        return {operation.name for operation in Strong(settings, 32, IMAGENET).operations}

    everything = names(AugmentSettings())
    tones = {"autocontrast", "equalize", "solarize", "color", "contrast", "brightness", "posterize"}
    assert everything - names(AugmentSettings(rotation=False)) == {"rotate"}
    assert everything - names(AugmentSettings(color=False)) == tones


def test_without_color_strong_views_have_no_new_tones() -> None:
    settings = AugmentSettings(color=False, cutout=0.0)
    flat = torch.full((200, 3, 32, 32), 90, dtype=torch.uint8)
    views = built(Strong, settings=settings, normalization=UNCHANGED)(flat, seeded()) * 255.0
    assert views.max() < 90.1  # the fill is black, and may be smoothed at its edge
    torch.testing.assert_close(views[..., 15:17, 15:17], torch.full((200, 3, 2, 2), 90.0))


def test_weak_views_move_by_at_most_an_eighth_of_the_side() -> None:
    point = torch.zeros(400, 3, 64, 64, dtype=torch.uint8)
    point[:, :, 32, 32] = 255
    settings = AugmentSettings(flip=False)
    views = built(Weak, size=64, settings=settings, normalization=UNCHANGED)(point, seeded())
    places = views[:, 0].nonzero()  # (400, 3): image, row, column
    assert len(places) == 400
    assert places[:, 1:].amin(dim=0).tolist() == [24, 24]
    assert places[:, 1:].amax(dim=0).tolist() == [40, 40]
    assert len({tuple(place) for place in places[:, 1:].tolist()}) > 200


def test_weak_views_with_reflection_padding_have_no_black() -> None:
    white = torch.full((64, 3, 32, 32), 255, dtype=torch.uint8)
    for settings, darkest in ((AugmentSettings(), 0.0), (AugmentSettings(padding="reflect"), 1.0)):
        assert built(Weak, normalization=UNCHANGED, settings=settings)(white, seeded()).min() == pytest.approx(darkest)


def test_cutout_leaves_one_square_of_zeros_after_normalization() -> None:
    settings = AugmentSettings(operations=1, cutout=0.5)
    white = torch.full((300, 3, 32, 32), 255, dtype=torch.uint8)
    views = built(Strong, settings=settings)(white, seeded())
    holes = (views == 0.0).all(dim=1)  # (B, 32, 32)
    rows, columns = holes.any(dim=2).sum(dim=1), holes.any(dim=1).sum(dim=1)
    assert torch.equal(holes.sum(dim=(1, 2)), rows * columns)  # a full rectangle
    assert rows.max() == 16
    assert columns.max() == 16
    assert rows.min() >= 1
    assert not (built(Strong, settings=settings.model_copy(update={"cutout": 0.0}))(white, seeded()) == 0.0).any()


def test_strong_views_draw_the_set_number_of_operations_uniformly(drawn: Tensor) -> None:
    # One operation: a fourteenth of the views is the identity.
    settings = AugmentSettings(operations=1, cutout=0.0, flip=False)
    image = drawn[5:6].expand(2800, -1, -1, -1).contiguous()
    views = built(Strong, settings=settings, normalization=UNCHANGED)(image, seeded())
    same = (views - image / 255.0).abs().amax(dim=(1, 2, 3)) < 1e-4
    # identity, posterize to 8 bits, autocontrast of an image that has black and white, and moves of less than a pixel
    assert 1 / 14 < same.float().mean() < 3.5 / 14
    two = built(Strong, settings=settings.model_copy(update={"operations": 4}), normalization=UNCHANGED)
    still = (two(image, seeded()) - image / 255.0).abs().amax(dim=(1, 2, 3)) < 1e-4
    assert still.float().mean() < 0.02


def test_images_that_are_not_uint8_are_refused(drawn: Tensor) -> None:
    with pytest.raises(ValueError, match=r"uint8 \(B, C, H, W\) with 1 or 3 channels, got torch.float32"):
        built(Weak)(drawn.float(), seeded())


def test_a_normalization_for_other_channels_is_refused(drawn: Tensor) -> None:
    with pytest.raises(ValueError, match=r"the normalization is for 3 channels, the images have 1"):
        built(Weak)(drawn[:, :1], seeded())
