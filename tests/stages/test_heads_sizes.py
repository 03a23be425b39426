"""Groups of even size or not: heads are trained both ways, and neighbors decide which answer is taken."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from test_heads_training import groups, labels_of, quick, same  # type: ignore[import-not-found]  # a test beside this
from torch import Tensor

from spice.stages.heads import train as stage
from spice.stages.heads.train import TrainedHeads, train_heads


def test_uneven_groups_are_found_where_sizes_are_not_given_and_even_ones_as_the_paper_has_it() -> None:
    uneven = groups([200, 40, 40, 10], noise=0.6)  # wide enough for even sizes to cut through the large group
    settings = quick(4, heads=8, batch=None, epochs=40, components=6, start="kmeans", start_runs=3, sizes="found")
    settings = settings.model_copy(update={"compactness": 2.0})
    found = train_heads(uneven, settings, seed=0)
    assert adjusted_rand_score(np.repeat(range(4), [200, 40, 40, 10]), labels_of(found, uneven)) > 0.95
    assert same(found, train_heads(uneven, settings.model_copy(update={"sizes": "nearest"}), seed=0))

    even = groups([60, 60, 60, 60])
    assert same(
        train_heads(even, settings, seed=0),
        train_heads(even, settings.model_copy(update={"sizes": "even", "start_runs": 1}), seed=0),
    )


def test_even_sizes_are_believed_where_neighbors_agree_or_fewer_clusters_stay_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    views = groups([60, 60, 60])
    trained = train_heads(views, quick(sizes="nearest"), seed=0)
    sparse = trained._replace(signs=trained.signs._replace(empty=[0]))

    def believed(
        in_even: float, in_found: float, *, even: TrainedHeads, found: TrainedHeads, selected: float = 1.0
    ) -> bool:
        asked = iter((stage._Agreement(0.9, in_even), stage._Agreement(selected, in_found)))
        monkeypatch.setattr(stage, "_neighbors_agree", lambda *_: next(asked))
        return stage._believed(even, found, views, quick())

    assert believed(0.8, 0.83, even=trained, found=trained)  # odds of 4 and 4.9: little is lost
    assert not believed(0.8, 0.84, even=trained, found=trained)  # 4 and 5.25
    assert believed(0.8, 0.84, even=trained, found=sparse)
    assert not believed(0.8, 0.84, even=sparse, found=trained)
    assert believed(1.0, 1.0, even=trained, found=trained)
    assert not believed(0.9, 1.0, even=trained, found=trained)
    assert not believed(0.8, 0.84, even=trained, found=trained, selected=0.9)
    assert believed(0.8, 0.84, even=trained, found=trained, selected=0.89)  # what would be taken is worse


def test_neighbors_are_asked_of_the_five_best_heads_and_the_second_most_agreement_counts() -> None:
    trained = train_heads(groups([60, 60, 60]), quick(sizes="nearest", heads=8), seed=0)
    same_group = torch.arange(180).view(3, 60).roll(1, dims=1).view(180, 1)
    groups_of, in_turn = torch.arange(180) // 60, torch.arange(180) % 3  # the latter parts all neighbors

    def agreement(*right: int, heads: int = 8, near: Tensor = same_group) -> float:
        """Where the heads of these ranks have found the groups, and no other."""
        labels = in_turn.repeat(heads, 1)
        labels[list(right)] = groups_of
        scores = {"loss": torch.arange(float(heads)), "compactness": torch.zeros(heads)}
        seen = trained.looks[-1]._replace(labels=labels.byte(), epoch=trained.best.epoch, **scores)
        asked = stage._neighbors_agree(trained._replace(looks=(seen,)), near, quick())
        assert asked.selected == (1.0 if 0 in right and near is same_group else 0.0)
        return asked.second

    assert agreement(0, 4) == 1.0
    assert agreement(1, 2) == 1.0
    assert agreement(0) == 0.0
    assert agreement(0, 5) == 0.0  # the sixth is not asked
    assert agreement(0, 1, near=same_group.roll(60, dims=0)) == 0.0  # neighbors of another group
    assert agreement(0, heads=1) == 1.0  # there is no second
    assert agreement(1, heads=2) == 0.0


def test_a_run_that_looks_for_sizes_goes_on_from_either_of_its_halves(tmp_path: Path) -> None:
    views = groups([40, 40, 40])
    settings = quick(start="kmeans", components=4, sizes="found")
    seen: list[tuple[int, int]] = []

    def tell(task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:
        seen.append((done, total))

    whole = train_heads(views, settings, seed=0, progress=tell)
    assert seen == [(step, 32) for step in range(1, 33)]
    for stop in (5, 16, 20):
        folder = tmp_path / str(stop)

        def stops(
            task: str, done: int, total: int, figures: Mapping[str, float] | None = None, *, stop: int = stop
        ) -> None:
            if done == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train_heads(views, settings, seed=0, folder=folder, progress=stops)
        assert same(whole, train_heads(views, settings, seed=0, folder=folder))
