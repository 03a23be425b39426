"""The statistics of a check by hand, compared with closed forms and in simulations."""

import numpy as np
import pytest
from scipy import stats

from spice.trust import check


def test_every_prefix_of_a_draw_is_spread_over_groups_and_chances() -> None:
    cluster = np.repeat(np.arange(5, dtype=np.int32), 200)
    chance = np.tile(np.linspace(0, 1, 200, dtype=np.float32), 5)
    rows = check.draw(cluster, chance, 100, seed=0)
    assert len(np.unique(rows)) == 100
    for count in (25, 50, 100):
        np.testing.assert_allclose(np.bincount(cluster[rows[:count]]), count / 5, atol=2)
        high = chance[rows[:count]] > 0.5
        assert abs(high.sum() - count / 2) <= 5


def test_a_longer_draw_continues_a_shorter_one_of_the_same_seed_only() -> None:
    cluster, chance = np.zeros(300, np.int32), np.linspace(0, 1, 300, dtype=np.float32)
    assert check.draw(cluster, chance, 80, seed=3)[:50].tolist() == check.draw(cluster, chance, 50, seed=3).tolist()
    assert check.draw(cluster, chance, 50, seed=4).tolist() != check.draw(cluster, chance, 50, seed=3).tolist()


def test_all_images_of_a_small_collection_can_be_drawn() -> None:
    rows = check.draw(np.zeros(7, np.int32), np.linspace(0, 1, 7, dtype=np.float32), 50, seed=0)
    assert sorted(rows.tolist()) == list(range(7))


def test_every_image_is_equally_likely() -> None:
    cluster, chance = np.arange(40, dtype=np.int32) % 3, np.linspace(0, 1, 40, dtype=np.float32)
    counts = sum(np.bincount(check.draw(cluster, chance, 4, seed=seed), minlength=40) for seed in range(2000))
    # 200 expected draws of each image, with a standard deviation of 13
    assert np.min(counts) > 140
    assert np.max(counts) < 260


def test_accuracy_is_the_mean_chance_plus_the_mean_difference_of_the_answers() -> None:
    chance = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4] * 100)
    rows, right = np.array([0, 3, 5, 10]), np.array([True, True, False, False])
    found = check.accuracy(chance, rows, right)
    difference = np.array([0.1, 0.4, -0.4, -0.5])
    assert found is not None
    assert found.value == pytest.approx(0.65 + difference.mean())
    plain = 1.959964 * np.sqrt((1 - 4 / 600) * difference.var(ddof=1) / 4)
    more = np.array([*difference, 0.35, 0.35, -0.65, -0.65])
    plus_four = 1.959964 * np.sqrt((1 - 4 / 600) * more.var(ddof=1) / 8)
    assert found.low == pytest.approx(max(0, min(found.value - plain, 0.65 + more.mean() - plus_four)), abs=1e-6)
    assert found.high == pytest.approx(min(1, max(found.value + plain, 0.65 + more.mean() + plus_four)), abs=1e-6)


def test_the_accuracy_of_a_subset_uses_its_own_answers() -> None:
    chance, among = np.full(100, 0.5), np.arange(100) < 50
    rows, right = np.array([1, 2, 3, 60, 61, 62]), np.array([True, True, True, False, False, False])
    found = check.accuracy(chance, rows, right, among=among)
    assert found is not None
    assert (found.value, found.answers) == (1.0, 3)
    assert check.accuracy(chance, rows[3:], right[3:], among=among) is None


def test_an_interval_has_a_width_even_if_all_answers_are_the_same() -> None:
    found = check.accuracy(np.full(10_000, 0.99), np.arange(50), np.ones(50, np.bool_))
    assert found is not None
    assert (found.value, found.high) == (1.0, 1.0)
    assert 0.88 < found.low < 0.95  # the exact interval begins at 0.929


def test_with_answers_for_all_images_the_accuracy_is_exact() -> None:
    right = np.arange(40) % 4 > 0
    found = check.accuracy(np.linspace(0, 1, 40), np.arange(40), right)
    assert found is not None
    np.testing.assert_allclose(found[:3], 0.75)


def test_purity_has_the_exact_interval_and_needs_five_answers() -> None:
    cluster = np.array([0] * 10 + [1] * 4 + [2] * 6, np.int32)
    right = np.array([True] * 8 + [False] * 2 + [True] * 10)
    first, few, sure = check.purities(cluster, np.arange(20), right, 3)
    exact = stats.binomtest(8, 10).proportion_ci(0.95, method="exact")
    assert first is not None
    assert sure is not None
    assert (first.value, first.low, first.high) == pytest.approx((0.8, exact.low, exact.high))
    assert few is None
    assert (sure.value, sure.low, sure.high) == pytest.approx((1.0, 0.025 ** (1 / 6), 1.0))


def test_recalibrated_chances_have_the_accuracy_as_mean_and_keep_their_order() -> None:
    random = np.random.default_rng(0)
    chance = random.uniform(0.3, 0.9, 1000)
    rows, right = np.arange(100), random.random(100) < chance[:100] - 0.2
    found, new = check.accuracy(chance, rows, right), check.recalibrate(chance, rows, right)
    assert found is not None
    assert new.mean() == pytest.approx(found.value, abs=0.01)
    assert (np.diff(new[np.argsort(chance)]) >= 0).all()


def test_the_slope_shrinks_from_that_of_many_answers_to_one_half_for_few() -> None:
    chance = np.linspace(0, 1, 10_001)
    many = np.random.default_rng(0).permutation(10_001)[:5000]
    right = np.random.default_rng(1).random(5000) < 0.3 + 0.4 * chance[many]
    steep = np.diff(check.recalibrate(chance, many, right)[[2500, 7500]])[0] / 0.5
    assert steep == pytest.approx(0.4, abs=0.06)
    flat = np.diff(check.recalibrate(chance, np.array([5000, 5000]), np.array([True, False]))[[2500, 7500]])[0] / 0.5
    assert flat == pytest.approx(0.5, abs=1e-5)


@pytest.mark.parametrize(("errors", "count"), [(0, 45), (1, 77), (2, 105)])
def test_the_number_of_answers_needed_for_95_percent(errors: int, count: int) -> None:
    assert check.needed(errors, 0.95) == count
    assert stats.binom.cdf(errors, count, 0.05) <= 0.1 < stats.binom.cdf(errors, count - 1, 0.05)


def test_images_are_kept_above_the_last_threshold_that_passes() -> None:
    chance = np.linspace(1, 0, 1000, endpoint=False)
    rows = np.arange(0, 1000, 10)  # 100 answers, most certain first
    right = np.ones(100, np.bool_)
    assert check.keep(chance, rows, right).images == 1000
    right[60:] = False
    found = check.keep(chance, rows, right)
    assert (found.answers, found.wrong, found.images) == (45, 0, 441)
    right[60:], right[20] = True, False  # the first test, with 45 answers, fails: nothing is kept
    assert check.keep(chance, rows, right).threshold is None
    right[20], right[50] = True, False  # the second allows one wrong answer
    assert check.keep(chance, rows, right).wrong == 1


def test_too_few_answers_keep_nothing_and_name_the_number_needed() -> None:
    found = check.keep(np.full(100, 0.9), np.arange(30), np.ones(30, np.bool_))
    assert (found.threshold, found.images, found.needed) == (None, 0, 45)
    assert check.keep(np.full(100, 0.9), np.arange(30), np.ones(30, np.bool_), target=0.9).images == 100


def test_images_of_equal_chance_are_kept_or_dropped_together() -> None:
    chance, rows = np.repeat([0.9, 0.5], 500), np.arange(0, 1000, 10)
    right = np.repeat([True, False], 50)
    assert check.keep(chance, rows, right).images == 500


def test_confidence_levels_hold_in_simulated_checks() -> None:
    random = np.random.default_rng(0)
    chance = random.beta(4, 1, 3000).astype(np.float32)
    truth = random.random(3000) < np.clip(chance - 0.05, 0, 1)  # overconfident by five points
    cluster = random.integers(0, 8, 3000).astype(np.int32)
    covered, met = [], []
    for seed in range(200):
        rows = check.draw(cluster, chance, 100, seed=seed)
        found = check.accuracy(chance, rows, truth[rows])
        assert found is not None
        covered.append(found.low <= truth.mean() <= found.high)
        kept = check.keep(chance, rows, truth[rows], target=0.8)
        met.append(kept.threshold is None or truth[chance >= kept.threshold].mean() >= 0.8)
    assert np.mean(covered) >= 0.93
    assert np.mean(met) >= 0.90
