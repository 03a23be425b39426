"""Images whose features are all zero and have no direction."""

import warnings

import numpy as np
import pytest
import torch

from spice.neighbors import BlankImagesWarning, Method, nearest, warn_of_blank
from spice.stages.bank import build_bank, compare_with_bank
from spice.stages.heads.inputs import principal_components

BLANK = [3, 17, 31]
METHODS: list[Method] = ["exact", "approximate"]


def features() -> torch.Tensor:
    found = torch.randn(40, 8, generator=torch.Generator().manual_seed(0)).relu()
    found[:, 0] += 1.0
    found[BLANK] = 0.0
    return found


@pytest.mark.parametrize("method", METHODS)
def test_blank_images_are_each_others_nearest_neighbors(method: Method) -> None:
    near = nearest(features(), 2, method=method)
    for row in BLANK:
        assert set(near.index[row].tolist()) == set(BLANK) - {row}
        torch.testing.assert_close(near.similarity[row], torch.ones(2))


@pytest.mark.parametrize("method", METHODS)
def test_blank_images_are_treated_as_features_that_are_all_equal(method: Method) -> None:
    given = features()
    ones = given.clone()
    ones[BLANK] = 1.0
    found, expected = nearest(given, 5, method=method), nearest(ones, 5, method=method)
    assert torch.equal(found.index, expected.index)
    assert torch.equal(found.similarity, expected.similarity)
    assert (given[BLANK] == 0).all()  # the features are not changed


@pytest.mark.parametrize("method", METHODS)
def test_all_images_may_be_blank(method: Method) -> None:
    found = nearest(torch.zeros(40, 8), 3, method=method)
    assert found.index[0].tolist() == [1, 2, 3]
    torch.testing.assert_close(found.similarity, torch.ones(40, 3))


def test_queries_may_be_blank() -> None:
    assert sorted(nearest(features(), 3, queries=torch.zeros(1, 8)).index[0].tolist()) == BLANK


def test_blank_images_are_counted_in_a_warning() -> None:
    with pytest.warns(BlankImagesWarning, match="sees nothing in 3 of 40 images"):
        warn_of_blank(features())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_blank(torch.ones(5, 3))


def test_a_bank_can_contain_and_compare_blank_images() -> None:
    cluster = torch.zeros(40, dtype=torch.long)
    cluster[[3, 17, 31]] = 1
    bank = build_bank(features(), cluster, clusters=2, neighbors=2, seed=0)
    judged = compare_with_bank(bank, torch.zeros(2, 8), torch.tensor([1, 0]))
    assert judged.reliability.tolist() == [1.0, 0.0]
    assert not judged.unlike.any()


def test_features_with_little_variance_have_components() -> None:
    # Ninety blank images and dead features: eigh did not converge on their covariance.
    table = np.zeros((100, 1280), dtype=np.float32)
    table[90:, :5] = np.random.default_rng(0).random((10, 5))
    found = principal_components(table, 16, seed=0)
    assert found.basis.shape == (1280, 16)
    assert found.basis.isfinite().all()
    many = principal_components(np.repeat(table, 15, axis=0), 16, seed=0)
    projected = (torch.from_numpy(table) - found.mean) @ found.basis
    again = (torch.from_numpy(table) - many.mean) @ many.basis
    torch.testing.assert_close(projected[:, :5], again[:, :5], rtol=1e-3, atol=1e-3)
