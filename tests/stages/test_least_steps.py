"""Small collections get enough steps in stage 2."""

import numpy as np
import pytest

from spice.engine.run import Run
from spice.settings import HeadSettings
from spice.stages.heads.inputs import epochs_for
from spice.stages.heads.train import train_heads
from spice.stages.views import Views


@pytest.mark.parametrize(
    ("images", "batch", "epochs"),
    [(6000, 1000, 15), (3000, 1000, 15), (2999, 1000, 23), (900, 900, 45), (90, 90, 45)],
)
def test_small_collections_get_as_many_steps_as_larger_ones(images: int, batch: int, epochs: int) -> None:
    assert epochs_for(images, batch, HeadSettings(clusters=3, epochs=15, least_steps=45)) == epochs


def test_the_paper_has_no_minimum_number_of_steps() -> None:
    assert epochs_for(90, 90, HeadSettings(clusters=3, epochs=15)) == 15


def test_heads_are_trained_for_that_many_epochs() -> None:
    table = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
    views = Views(table, table[None], table[None])
    settings = HeadSettings(clusters=2, heads=2, epochs=3, batch=10, least_steps=20, select_every=1)
    assert [snapshot.epoch for snapshot in train_heads(views, settings, Run()).snapshots] == list(range(1, 8))
