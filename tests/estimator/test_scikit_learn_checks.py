"""Scikit-learn's own checks of an estimator, on arrays of features."""

import warnings

import pytest
from sklearn.utils.estimator_checks import check_estimator

from spice import SPICE

ONE_CLUSTER = "asks for one cluster, which is no clustering and is refused in words"
EXCEPTIONS = {
    "check_dont_overwrite_parameters": ONE_CLUSTER,
    "check_methods_subset_invariance": ONE_CLUSTER,
    "check_fit2d_1feature": ONE_CLUSTER,
    "check_fit2d_predict1d": ONE_CLUSTER,
    "check_fit1d": "a one-dimensional array is neither images nor features; refused in words, not by ValueError",
}


@pytest.mark.slow
def test_an_array_of_features_is_treated_as_scikit_learn_expects() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # random features are hardly ever reliable
        found = check_estimator(SPICE(n_clusters=3), expected_failed_checks=EXCEPTIONS, on_fail="raise")
    assert sum(check["status"] == "passed" for check in found) >= 35
