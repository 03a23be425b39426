"""The plausible numbers of groups: peaks of the curve that stand out from its noise.

Shapes: R draws, C numbers of groups.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# A peak is clear if its prominence is more than this many times the noise of the prominence between draws.
CLEAR = 2.0
MAX_PEAKS = 3


class Curve(NamedTuple):
    """A score for each number of groups, once for every draw of images."""

    counts: list[int]  # (C,) numbers of groups
    score: NDArray[np.float64]  # (R, C)

    @property
    def mean(self) -> NDArray[np.float64]:
        """The mean score over the draws: (C,)."""
        return np.asarray(self.score.mean(axis=0))


class Peak(NamedTuple):
    """A local maximum of the mean curve."""

    clusters: int
    score: float  # S(K)
    prominence: float  # height above the saddle towards the next higher peak
    spread: float  # standard deviation of the prominence between draws, at least the typical one of the curve

    @property
    def clearness(self) -> float:
        """Prominence in units of its spread."""
        return self.prominence / max(self.spread, 1e-9)


def plausible(curve: Curve) -> list[Peak]:
    """The highest peak and the clearest others: at most three, coarsest first."""
    highest, *others = sorted(all_peaks(curve), key=lambda peak: -peak.score)
    clear = sorted((peak for peak in others if peak.clearness > CLEAR), key=lambda peak: -peak.clearness)
    return sorted([highest, *clear[: MAX_PEAKS - 1]])


def all_peaks(curve: Curve) -> list[Peak]:
    """Every local maximum of the mean curve."""
    mean, typical = curve.mean, typical_spread(curve.score)
    found = []
    for peak in _maxima(mean):
        rise = curve.score[:, peak] - curve.score[:, _saddle(mean, peak)]  # (R,)
        spread = max(float(rise.std(ddof=1)), typical)
        found.append(Peak(curve.counts[peak], float(mean[peak]), float(rise.mean()), spread))
    return found


def typical_spread(score: NDArray[np.float64]) -> float:
    """The median over K of the standard deviation between draws, after centering each draw."""
    return float(np.median((score - score.mean(axis=1, keepdims=True)).std(axis=0, ddof=1)))


def _maxima(mean: NDArray[np.float64]) -> list[int]:
    """Positions of local maxima. The last position counts only if it is the highest: the curve may continue to rise."""
    padded = np.concatenate([[-np.inf], mean, [-np.inf]])
    found: list[int] = np.flatnonzero((padded[1:-1] > padded[:-2]) & (padded[1:-1] >= padded[2:])).tolist()
    return [place for place in found if place < len(mean) - 1 or place == mean.argmax()]


def _saddle(mean: NDArray[np.float64], peak: int) -> int:
    """The lowest position between a peak and the next higher one, on the side where it is higher.

    The saddle of the highest peak is the minimum of the curve.
    """
    saddles = []
    if len(higher := np.flatnonzero(mean[:peak] > mean[peak])):
        saddles.append(int(higher[-1] + mean[higher[-1] : peak].argmin()))
    if len(higher := np.flatnonzero(mean[peak:] > mean[peak])):
        saddles.append(int(peak + mean[peak : peak + higher[0]].argmin()))
    return max(saddles, key=lambda place: mean[place]) if saddles else int(mean.argmin())
