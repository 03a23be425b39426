"""Which peaks of a curve are plausible."""

import numpy as np
import pytest

from spice.stages.groups.peaks import Curve, all_peaks, plausible, typical_spread


def curve(*draws: list[float]) -> Curve:
    return Curve(list(range(2, 2 + len(draws[0]))), np.array(draws))


def shifted(mean: list[float], *shifts: list[float]) -> Curve:
    return curve(*(list(np.add(mean, shift)) for shift in shifts))


MEAN = [0.5, 0.3, 0.4, 0.35, 0.8, 0.2]  # numbers 2 to 7; peaks at 2, 4 and 6
QUIET = ([0.001, 0, 0, 0, 0, 0], [-0.001, 0, 0, 0, 0, 0])


def test_prominence_is_the_rise_above_the_higher_of_the_two_saddles() -> None:
    peaks = {peak.clusters: peak for peak in all_peaks(shifted(MEAN, *QUIET))}
    assert sorted(peaks) == [2, 4, 6]
    assert peaks[2].prominence == pytest.approx(0.5 - 0.3)
    assert peaks[4].prominence == pytest.approx(0.4 - 0.35)
    assert peaks[6].prominence == pytest.approx(0.8 - 0.2)  # the highest: above the minimum
    assert peaks[6].score == pytest.approx(0.8)


def test_a_peak_that_rises_no_more_than_twice_its_noise_does_not_count() -> None:
    noise = 0.03  # of the rise of the peak at 4: 0.05 in the mean, with a deviation of 0.03 * sqrt(2)
    noisy = shifted(MEAN, [0, 0, noise, 0, 0, 0], [0, 0, -noise, 0, 0, 0])
    assert [peak.clusters for peak in plausible(noisy)] == [2, 6]
    assert [peak.clusters for peak in plausible(shifted(MEAN, *QUIET))] == [2, 4, 6]


def test_an_offset_of_a_whole_draw_is_not_noise() -> None:
    higher = shifted(MEAN, [0.1] * 6, [-0.1] * 6)
    assert typical_spread(higher.score) == pytest.approx(0.0)
    assert [peak.clusters for peak in plausible(higher)] == [2, 4, 6]


def test_the_highest_peak_always_counts_and_at_most_two_others() -> None:
    many = [0.5, 0.1, 0.51, 0.2, 0.45, 0.3, 0.9, 0.1]
    found = plausible(shifted(many, [0.001, -0.001] * 4, [-0.001, 0.001] * 4))
    assert [peak.clusters for peak in found] == [2, 4, 8]
    noisy = shifted([0.1, 0.2, 0.1], [0.5, 0, 0.5], [-0.5, 0, -0.5])
    assert [peak.clusters for peak in plausible(noisy)] == [3]


def test_the_ends_of_the_curve_can_be_peaks() -> None:
    assert [peak.clusters for peak in all_peaks(curve([3.0, 2.0, 1.0], [3.0, 2.0, 1.0]))] == [2]
    assert [peak.clusters for peak in all_peaks(curve([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]))] == [4]


def test_the_end_of_a_rising_curve_is_a_peak_only_if_it_is_the_highest() -> None:
    rising = [0.2, 0.5, 0.1, 0.3, 0.4]
    assert [peak.clusters for peak in plausible(shifted(rising, [0.0] * 5, [0.001] * 5))] == [3]
    rising[-1] = 0.6
    assert [peak.clusters for peak in plausible(shifted(rising, [0.0] * 5, [0.001] * 5))] == [3, 6]
