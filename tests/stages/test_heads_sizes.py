"""Groups of even size or not: heads are trained both ways, and neighbors decide which result is kept."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from test_heads_training import groups, labels_of, quick, same  # type: ignore[import-not-found]  # a test beside this
from torch import Tensor

from spice.engine.run import Run
from spice.stages.heads import train
from spice.stages.heads.algorithm_1 import TrainedHeads
from spice.stages.heads.train import NeighborAgreement, neighbor_agreement, prefer_even_sizes, train_heads


def test_uneven_groups_are_found_without_given_sizes_and_even_groups_by_the_papers_rule() -> None:
    uneven = groups([200, 40, 40, 10], noise=0.6)  # wide enough for even sizes to cut through the large group
    settings = quick(4, heads=8, batch=None, epochs=40, components=6, start="kmeans", start_runs=3, sizes="found")
    settings = settings.model_copy(update={"compactness": 2.0})
    found = train_heads(uneven, settings, Run())
    assert adjusted_rand_score(np.repeat(range(4), [200, 40, 40, 10]), labels_of(found, uneven)) > 0.95
    assert same(found, train_heads(uneven, settings.model_copy(update={"sizes": "nearest"}), Run()))

    even = groups([60, 60, 60, 60])
    assert same(
        train_heads(even, settings, Run()),
        train_heads(even, settings.model_copy(update={"sizes": "even", "start_runs": 1}), Run()),
    )


def test_even_sizes_are_preferred_where_neighbors_agree_or_fewer_clusters_are_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    views = groups([60, 60, 60])
    trained = train_heads(views, quick(sizes="nearest"), Run())
    sparse = trained._replace(diagnostics=trained.diagnostics._replace(empty=[0]))

    def prefers_even(
        with_even: float, without: float, *, even: TrainedHeads, by_nearest: TrainedHeads, selected: float = 1.0
    ) -> bool:
        given = iter((NeighborAgreement(0.9, with_even), NeighborAgreement(selected, without)))
        monkeypatch.setattr(train, "neighbor_agreement", lambda *_: next(given))
        return prefer_even_sizes(even, by_nearest, views, quick())

    assert prefers_even(0.8, 0.83, even=trained, by_nearest=trained)  # odds of 4 and 4.9: little is lost
    assert not prefers_even(0.8, 0.84, even=trained, by_nearest=trained)  # 4 and 5.25
    assert prefers_even(0.8, 0.84, even=trained, by_nearest=sparse)
    assert not prefers_even(0.8, 0.84, even=sparse, by_nearest=trained)
    assert prefers_even(1.0, 1.0, even=trained, by_nearest=trained)
    assert not prefers_even(0.9, 1.0, even=trained, by_nearest=trained)
    assert not prefers_even(0.8, 0.84, even=trained, by_nearest=trained, selected=0.9)
    assert prefers_even(0.8, 0.84, even=trained, by_nearest=trained, selected=0.89)  # the other selected head is worse


def test_the_second_best_neighbor_agreement_of_the_five_best_heads_counts() -> None:
    trained = train_heads(groups([60, 60, 60]), quick(sizes="nearest", heads=8), Run())
    same_group = torch.arange(180).view(3, 60).roll(1, dims=1).view(180, 1)
    groups_of, in_turn = torch.arange(180) // 60, torch.arange(180) % 3  # the latter separates all neighbors

    def agreement(*right: int, heads: int = 8, near: Tensor = same_group) -> float:
        """Where the heads of these ranks have found the groups, and no other."""
        labels = in_turn.repeat(heads, 1)
        labels[list(right)] = groups_of
        scores = {"loss": torch.arange(float(heads)), "compactness": torch.zeros(heads)}
        snapshot = trained.snapshots[-1]._replace(labels=labels.byte(), epoch=trained.best.epoch, **scores)
        found = neighbor_agreement(trained._replace(snapshots=(snapshot,)), near, quick())
        assert found.selected == (1.0 if 0 in right and near is same_group else 0.0)
        return found.second

    assert agreement(0, 4) == 1.0
    assert agreement(1, 2) == 1.0
    assert agreement(0) == 0.0
    assert agreement(0, 5) == 0.0  # the sixth does not count
    assert agreement(0, 1, near=same_group.roll(60, dims=0)) == 0.0  # neighbors of another group
    assert agreement(0, heads=1) == 1.0  # there is no second
    assert agreement(1, heads=2) == 0.0


def test_a_run_that_tries_both_sizes_resumes_in_either_of_its_halves(tmp_path: Path) -> None:
    views = groups([40, 40, 40])
    settings = quick(start="kmeans", components=4, sizes="found")
    seen: list[tuple[int, int]] = []

    def record(task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:
        seen.append((done, total))

    whole = train_heads(views, settings, Run(progress=record))
    assert seen == [(step, 32) for step in range(1, 33)]
    for stop in (5, 16, 20):
        folder = tmp_path / str(stop)

        def stops(
            task: str, done: int, total: int, figures: Mapping[str, float] | None = None, *, stop: int = stop
        ) -> None:
            if done == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train_heads(views, settings, Run(folder=folder, progress=stops))
        assert same(whole, train_heads(views, settings, Run(folder=folder)))
