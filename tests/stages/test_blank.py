"""Images whose features have no direction."""

import warnings

import numpy as np
import pytest
import torch

from spice.neighbors import nearest
from spice.stages.bank import hold_against, remember
from spice.stages.blank import BlankImagesWarning, warn_of_blank, with_direction
from spice.stages.heads.inputs import principal_components


def features() -> torch.Tensor:
    found = torch.randn(40, 8, generator=torch.Generator().manual_seed(0)).relu()
    found[:, 0] += 1.0
    found[[3, 17, 31]] = 0.0
    return found


def test_blank_images_are_each_others_neighbors_and_all_else_stays() -> None:
    given = features()
    found = with_direction(given)
    others = [row for row in range(40) if row not in (3, 17, 31)]
    assert torch.equal(found[others], given[others])
    near = nearest(found, 2)
    assert set(near.index[3].tolist()) == {17, 31}


def test_features_that_all_have_a_direction_are_not_even_copied() -> None:
    given = torch.ones(5, 3)
    assert with_direction(given) is given


def test_blank_images_are_named() -> None:
    with pytest.warns(BlankImagesWarning, match="sees nothing at all in 3 of 40 images"):
        warn_of_blank(features())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_blank(torch.ones(5, 3))


def test_a_model_can_remember_and_judge_blank_images() -> None:
    cluster = torch.zeros(40, dtype=torch.long)
    cluster[[3, 17, 31]] = 1
    bank = remember(features(), cluster, clusters=2, asked=2, seed=0)
    judged = hold_against(bank, torch.zeros(2, 8), torch.tensor([1, 0]))
    assert judged.reliability.tolist() == [1.0, 0.0]
    assert not judged.unlike.any()


def test_features_that_hardly_stir_have_components() -> None:
    # Ninety silent images and dead features: eigh gave up on their covariance.
    table = np.zeros((100, 1280), dtype=np.float32)
    table[90:, :5] = np.random.default_rng(0).random((10, 5))
    found = principal_components(table, 16, seed=0)
    assert found.basis.shape == (1280, 16)
    assert found.basis.isfinite().all()
    many = principal_components(np.repeat(table, 15, axis=0), 16, seed=0)
    projected = (torch.from_numpy(table) - found.mean) @ found.basis
    again = (torch.from_numpy(table) - many.mean) @ many.basis
    torch.testing.assert_close(projected[:, :5], again[:, :5], rtol=1e-3, atol=1e-3)
