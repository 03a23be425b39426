"""The linear probe: what is separable is found, what is noise is not, and the test set is never learned from."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from spice.evaluate.probe import LabeledFeatures, linear_accuracy


def digits() -> LabeledFeatures:
    data, target = load_digits(return_X_y=True)
    return LabeledFeatures(data.astype(np.float32), target)


def noise(images: int = 400) -> LabeledFeatures:
    random = np.random.default_rng(0)
    return LabeledFeatures(random.normal(size=(images, 20)), random.integers(0, 4, images))


def test_digits_are_linearly_separable_and_labels_of_noise_cannot_be_guessed() -> None:
    assert linear_accuracy(digits()) > 0.94
    assert linear_accuracy(noise()) < 0.4


def test_a_given_test_set_is_the_one_that_is_scored() -> None:
    features, labels = digits()
    known, test = LabeledFeatures(features[:1000], labels[:1000]), LabeledFeatures(features[1000:], labels[1000:])
    assert linear_accuracy(known, test) > 0.9
    assert linear_accuracy(known, LabeledFeatures(test.features, (test.labels + 1) % 10)) < 0.1


def test_the_folds_come_from_the_seed() -> None:
    features, labels = digits()
    part = LabeledFeatures(features[:300, ::3], labels[:300])
    assert linear_accuracy(part, seed=1) == linear_accuracy(part, seed=1)
    assert len({linear_accuracy(part, seed=seed) for seed in range(4)}) > 1


def test_what_cannot_be_probed_is_refused_in_words() -> None:
    features, labels = noise(20)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[20, 19\]"):
        linear_accuracy(LabeledFeatures(features, labels[1:]))
    with pytest.raises(ValueError, match="continuous"):
        linear_accuracy(LabeledFeatures(features, labels / 2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n_splits=5 cannot be greater than the number of members in each class"):
        linear_accuracy(LabeledFeatures(features, np.arange(20)))
    with pytest.raises(ValueError, match="Input X contains NaN"):
        linear_accuracy(LabeledFeatures(features * np.nan, labels))
