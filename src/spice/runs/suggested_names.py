"""Suggested names of groups, from the classes that the built-in encoders were trained on.

Shapes: N images, T classes kept of each, C = 1000 classes, W words (the classes and more general words), G groups.
"""

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spice.runs.artifacts import WORDS
from spice.runs.groups import Groups
from spice.runs.result import Result

CLASSES = 1000
CLASSES_KEPT = 8  # T: classes beyond the eighth hardly change a suggestion

# A word is suggested if its mean probability and its information about the group (below) are at least these. Both were
# set by reading the suggestions for six collections: a wrong word is worse than none.
LEAST_SHARE, LEAST_INFORMATION = 0.3, 1.0
# Of words that hold nearly the same images, the more specific one is suggested.
NEARLY = 0.8
_SMALL = 1e-3  # probability that a word has everywhere


class ImageWords(NamedTuple):
    """The best classes of every image, and their probabilities."""

    best: NDArray[np.uint16]  # (N, T)
    share: NDArray[np.float16]  # (N, T)


class Vocabulary(NamedTuple):
    """All words, and which classes each stands for."""

    words: list[str]  # (W,)
    holds: NDArray[np.float32]  # (C, W) 1 if the class is the word, or a kind of it


@cache
def vocabulary() -> Vocabulary:
    """The words of `imagenet_words.txt`."""
    text = (files("spice.runs") / "imagenet_words.txt").read_text(encoding="utf-8")
    classes = [line.split("; ") for line in text.splitlines() if not line.startswith("#")]
    words = sorted({word for one in classes for word in one})
    place = {word: position for position, word in enumerate(words)}
    holds = np.zeros((CLASSES, len(words)), dtype=np.float32)
    for number, one in enumerate(classes):
        holds[number, [place[word] for word in one]] = 1
    return Vocabulary(words, holds)


def read_words(result: Result) -> ImageWords | None:
    """The words of a run; None if its encoder has no classifier, or an older version made it."""
    if not (result / WORDS).exists():
        return None
    with np.load(result.need(WORDS)) as saved:
        return ImageWords(**saved)


def suggest_names(found: ImageWords | None, groups: Groups) -> dict[int, str]:
    """A word for each unnamed group that one clearly fits; no word is used twice."""
    if found is None:
        return {}
    numbers = [number for number in groups.active if number in groups.group]
    known, mean = vocabulary(), _means(found, groups, numbers)  # (G, W)
    others = (mean.sum(axis=0) - mean) / max(1, len(numbers) - 1)
    # What the word contributes to the Kullback-Leibler divergence of the group from the other groups.
    information = mean * np.log((mean + _SMALL) / (others + _SMALL))  # (G, W)
    information[mean < LEAST_SHARE] = 0
    information[:, np.isin(known.words, list(groups.names.values()))] = 0
    information[[number in groups.names for number in numbers]] = 0
    suggested: dict[int, str] = {}
    while information.size and information.max() >= LEAST_INFORMATION:
        group = int(information.max(axis=1).argmax())
        word = _most_specific(known, mean[group], information[group])
        suggested[numbers[group]] = known.words[word]
        information[group] = 0
        information[:, word] = 0
    return dict(sorted(suggested.items()))


def _means(found: ImageWords, groups: Groups, numbers: list[int]) -> NDArray[np.float64]:
    """(G, W) mean probability of every word in every group."""
    inside = np.isin(groups.group, numbers)
    place = np.searchsorted(numbers, groups.group[inside])  # (n,)
    flat = place[:, None] * CLASSES + found.best[inside]  # (n, T)
    sums = np.bincount(flat.ravel(), found.share[inside].ravel(), minlength=len(numbers) * CLASSES)
    sizes = np.bincount(place, minlength=len(numbers))
    mean: NDArray[np.float64] = sums.reshape(-1, CLASSES) / sizes[:, None] @ vocabulary().holds
    return mean


def _most_specific(known: Vocabulary, mean: NDArray[np.float64], information: NDArray[np.float64]) -> int:
    """The best word, or a narrower word within it that covers nearly as many images."""
    best = int(information.argmax())
    within = known.holds[known.holds[:, best] > 0].sum(axis=0) == known.holds.sum(axis=0)  # (W,)
    close = np.flatnonzero(within & (mean >= NEARLY * mean[best]) & (information >= LEAST_INFORMATION))
    return int(close[known.holds[:, close].sum(axis=0).argmin()])
