"""Stage 2: Algorithm 1 in plain loops, every option, extreme sizes, and resuming."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from spice.core import double_softmax_cross_entropy, prototype_labels
from spice.data.batches import batches
from spice.engine.checkpoints import Checkpoints
from spice.engine.processes import Processes
from spice.engine.run import Run
from spice.errors import SpiceWarning, UserError
from spice.models.heads import Heads
from spice.randomness import generator, seeded
from spice.settings import HeadSettings
from spice.stages.heads import algorithm_1
from spice.stages.heads.algorithm_1 import TrainedHeads
from spice.stages.heads.diagnostics import SharedPrototypeWarning
from spice.stages.heads.inputs import batch_size, principal_components
from spice.stages.heads.train import train_heads
from spice.stages.view_files import Kind
from spice.stages.views import Views


def groups(sizes: list[int], *, width: int = 8, noise: float = 0.3, views: int = 2, seed: int = 0) -> Views:
    """Images of each group lie around one of `len(sizes)` orthogonal directions, plus a common vector."""
    randomness = torch.Generator().manual_seed(seed)
    kind = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    centers = 3 * torch.eye(max(width, len(sizes)))[: len(sizes)] + 1

    def around(spread: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        drawn = torch.randn(len(kind), centers.shape[1], generator=randomness)
        return (plain + spread * drawn).numpy()

    plain = centers[kind] + noise * torch.randn(len(kind), centers.shape[1], generator=randomness)
    weak = np.stack([around(0.05) for _ in range(views)])
    return Views(plain.numpy(), weak, np.stack([around(0.2) for _ in range(views)]))


def quick(clusters: int = 3, **changes: object) -> HeadSettings:
    return HeadSettings.model_validate(
        {"clusters": clusters, "heads": 4, "epochs": 8, "batch": 60, "learning_rate": 0.02} | changes
    )


def labels_of(trained: TrainedHeads, views: Views) -> Tensor:
    with torch.no_grad():
        logits: Tensor = trained.head(torch.from_numpy(views.plain).float())
    return logits.argmax(dim=1)


def same(first: TrainedHeads, second: TrainedHeads) -> bool:
    states = zip(first.heads.state_dict().values(), second.heads.state_dict().values(), strict=True)
    return all(torch.equal(one, other) for one, other in states) and first.best[:3] == second.best[:3]


def test_an_epoch_is_algorithm_1_written_out() -> None:
    views = groups([40, 40, 40])
    settings = quick(epochs=2, batch=50, learning_rate=0.01)
    trained = train_heads(views, settings, Run(seed=3))

    with seeded(3, "heads", "weights"):
        start = Heads(4, 8, 3)
    for number in range(4):
        head = start.head(number)
        optimizer = torch.optim.Adam(head.parameters(), lr=0.01)
        for epoch in range(2):
            for batch in batches(120, 50, seed=3, stage="heads", epoch=epoch):
                step = 2 * epoch + batch.number  # floor(120 / 50) = 2 batches an epoch
                drawn = [
                    int(torch.randint(2, (), generator=generator(3, "heads", "view", purpose, step)))
                    for purpose in ("label", "train 0")
                ]
                plain, weak, strong = (
                    torch.from_numpy(table[batch.images.numpy()])
                    for table in (views.plain, views.weak[drawn[0]], views.strong[drawn[1]])
                )
                chosen = prototype_labels(plain, head(weak).softmax(dim=1))
                loss = double_softmax_cross_entropy(head(strong[chosen.image]), chosen.cluster)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        for name, value in trained.heads.head(number).state_dict().items():
            torch.testing.assert_close(value, head.state_dict()[name], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("changes", [{}, {"start": "kmeans"}, {"components": 4, "start": "kmeans"}, {"batch": None}])
def test_clear_groups_are_found(changes: dict[str, Any]) -> None:
    views = groups([60, 60, 60])
    trained = train_heads(views, quick(heads=8, epochs=40, **changes), Run())
    assert adjusted_rand_score(np.repeat(range(3), 60), labels_of(trained, views)) == 1.0
    assert trained.diagnostics.distinct > 0.99
    assert trained.diagnostics.shared == []
    assert trained.best.loss == min(float(snapshot.loss.min()) for snapshot in trained.snapshots)


@pytest.mark.parametrize(
    "changes",
    [
        {"overlap": False},
        {"loss": "cross_entropy"},
        {"loss": "temperature"},
        {"entropy": 1.0},
        {"center_ratio": 0.5},
        {"label_view": "plain"},
        {"label_view": "strong"},
        {"train_view": "weak"},
        {"sub_batch": 16},
        {"repeats": 2},
        {"hidden": 5},
        {"components": 4},
        {"start": "kmeans"},
        {"sizes": "nearest"},
    ],
)
def test_every_option_changes_what_is_learned_and_still_finds_clear_groups(changes: dict[str, Any]) -> None:
    views = groups([60, 60, 60], noise=0.8)
    plain = train_heads(views, quick(heads=8, epochs=25), Run())
    changed = train_heads(views, quick(heads=8, epochs=25, **changes), Run())
    assert changed.best.loss != plain.best.loss
    assert adjusted_rand_score(np.repeat(range(3), 60), labels_of(changed, views)) > 0.8


def test_the_same_seed_gives_the_same_heads_bit_for_bit_and_another_does_not() -> None:
    views = groups([40, 40, 40])
    settings = quick(start="kmeans", components=4)
    first = train_heads(views, settings, Run(seed=1))
    assert same(first, train_heads(views, settings, Run(seed=1)))
    assert not same(first, train_heads(views, settings, Run(seed=2)))


@pytest.mark.parametrize("stop", [1, 5, 16, 31])
def test_a_stopped_run_resumes_as_if_never_stopped(stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    views = groups([40, 40, 40])
    settings = quick(batch=30, select_every=3)
    monkeypatch.setattr(Checkpoints, "due", lambda self: True)

    def stops(task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:
        if done == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_heads(views, settings, Run(folder=tmp_path, progress=stops))
    whole = train_heads(views, settings, Run())
    resumed = train_heads(views, settings, Run(folder=tmp_path))
    assert same(whole, resumed)
    assert [snapshot.epoch for snapshot in resumed.snapshots] == [3, 6, 8]
    for one, other in zip(whole.snapshots, resumed.snapshots, strict=True):
        assert torch.equal(one.loss, other.loss)
    # A finished run has nothing left to do and returns the same heads.
    assert same(whole, train_heads(views, settings, Run(folder=tmp_path)))


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    views = groups([20, 20, 20])
    train_heads(views, quick(epochs=1), Run(folder=tmp_path))
    with pytest.raises(UserError, match=r"learning_rate was 0\.02, is 0\.1"):
        train_heads(views, quick(epochs=1, learning_rate=0.1), Run(folder=tmp_path))


def test_a_checkpoint_of_another_version_of_the_program_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Later(Heads):
        def __init__(self, *sizes: int, hidden: int | None = None) -> None:
            super().__init__(*sizes, hidden=hidden)
            self.scale = torch.nn.Parameter(torch.ones(()))

    views = groups([20, 20, 20])
    train_heads(views, quick(epochs=1), Run(folder=tmp_path))
    monkeypatch.setattr(algorithm_1, "Heads", Later)
    with pytest.raises(UserError, match=r"parameters was \['hidden', 'out_weight', 'out_bias'\], is .*'scale'"):
        train_heads(views, quick(epochs=1), Run(folder=tmp_path))


def test_a_checkpoint_of_another_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    views = groups([20, 20, 20])
    train_heads(views, quick(epochs=1), Run(folder=tmp_path))
    monkeypatch.setattr(algorithm_1, "STATE_FORMAT", 4)
    with pytest.raises(UserError, match="format was 3, is 4"):
        train_heads(views, quick(epochs=1), Run(folder=tmp_path))


def test_impossible_sizes_are_refused() -> None:
    for images, clusters in ((600, 400), (12, 12), (5, 3)):
        most = images // 2
        message = f"need at least 2 images per group: {images} images allow at most {most} groups, got {clusters}"
        with pytest.raises(UserError, match=message):
            batch_size(images, quick(clusters, batch=None))
        assert batch_size(images, quick(most, batch=None)) == images
    with pytest.raises(UserError, match="need at least 4 images \\(2 per group\\), got 3"):
        batch_size(3, quick(2))
    with pytest.raises(
        UserError, match="a batch of 60 images is too small for 200 groups; use at least 200, preferably 2000"
    ):
        batch_size(5000, quick(200))
    with pytest.raises(UserError, match="need at least 2 groups, got 1"):
        batch_size(5000, quick(1))
    with pytest.raises(UserError, match=r"heads\.sub_batch is 2; 3 processes need at least that many"):
        batch_size(60, quick(3, sub_batch=2), Processes(count=3))
    assert batch_size(50, quick(3, batch=1000)) == 50
    assert batch_size(5000, quick(3, batch=None)) == 5000


@pytest.mark.parametrize(
    ("images", "clusters", "batch"),
    [(30, 3, 1000), (50, 2, 20), (40, 20, 39), (4, 2, None), (5, 2, 3), (400, 200, 300), (500, 200, None)],
)
@pytest.mark.parametrize("start", ["random", "kmeans"])
def test_any_size_trains(images: int, clusters: int, batch: int | None, start: str) -> None:
    views = groups([images], width=6, noise=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpiceWarning)
        trained = train_heads(views, quick(clusters, batch=batch, epochs=2, heads=2, start=start, components=4), Run())
    assert torch.isfinite(trained.snapshots[-1].loss).all()
    assert labels_of(trained, views).shape == (images,)


@pytest.mark.parametrize("components", [None, 4])
@pytest.mark.parametrize("start", ["random", "kmeans"])
def test_constant_features_cause_a_warning_not_nan(components: int | None, start: str) -> None:
    table = np.ones((40, 8), dtype=np.float32)
    views = Views(table, np.stack([table] * 2), np.stack([table] * 2))
    with pytest.warns(SharedPrototypeWarning, match="share their typical images"):
        trained = train_heads(views, quick(4, components=components, start=start), Run())
    assert torch.isfinite(trained.snapshots[-1].loss).all()
    assert trained.diagnostics.distinct == 0.25
    assert trained.diagnostics.largest == 1.0


def test_copies_of_an_image_get_one_label() -> None:
    views = groups([30, 30, 30])
    twice = Views(np.tile(views.plain, (2, 1)), np.tile(views.weak, (1, 2, 1)), np.tile(views.strong, (1, 2, 1)))
    labels = labels_of(train_heads(twice, quick(), Run()), twice)
    assert torch.equal(labels[:90], labels[90:])


def test_a_giant_group_causes_a_warning() -> None:
    """Every cluster labels M / K images (the paper), so a group of 88 % cannot be one cluster."""
    views = groups([300, 20, 20], noise=0.2)
    with pytest.warns(SpiceWarning):
        trained = train_heads(views, quick(heads=10, batch=None, start="kmeans"), Run())
    assert torch.isfinite(trained.snapshots[-1].loss).all()
    assert labels_of(trained, views).bincount(minlength=3).sum() == 340


def test_nan_features_are_refused() -> None:
    views = groups([30, 30])
    views.plain[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN or infinite values in 1 of"):
        train_heads(views, quick(2, batch=None), Run())


def test_a_head_on_components_equals_a_head_on_features() -> None:
    views = groups([60, 60, 60])
    trained = train_heads(views, quick(components=4, hidden=6, epochs=2), Run())
    assert trained.components is not None
    on_components = trained.components.project(views)
    one = trained.heads.part(slice(0, 1))
    one.load_state_dict(trained.best.parameters)
    with torch.no_grad():
        inside = one.head(0)(torch.from_numpy(on_components.plain))
        outside = trained.head(torch.from_numpy(views.plain))
    assert trained.head.hidden.weight.shape == (6, 8)
    torch.testing.assert_close(inside, outside, atol=1e-4, rtol=1e-4)


def one_length(table: np.ndarray[Any, np.dtype[np.float32]]) -> Tensor:
    rows = torch.from_numpy(table)
    scaled: Tensor = rows.norm(dim=1).mean() * torch.nn.functional.normalize(rows, dim=1)
    return scaled


def test_components_have_the_most_variance_and_unit_variance_on_average() -> None:
    randomness = np.random.default_rng(0)
    table = (randomness.normal(size=(500, 5)) * [1, 5, 0.1, 3, 0.1] + 20).astype(np.float32)
    found = principal_components(table, 2, seed=0)
    projected = (one_length(table) - found.mean) @ found.basis
    assert found.basis.abs().argmax(dim=0).tolist() == [1, 3]
    torch.testing.assert_close(projected.var(dim=0, correction=0).mean(), torch.tensor(1.0), rtol=1e-4, atol=0.0)
    assert principal_components(table[:3], 10, seed=0).basis.shape == (5, 3)


def test_components_by_subspace_iteration_equal_those_of_the_svd() -> None:
    randomness = np.random.default_rng(0)
    spread = np.geomspace(3, 0.05, 120)
    table = (randomness.normal(size=(400, 120)) * spread + 20).astype(np.float32)
    found = principal_components(table, 6, seed=0)  # 6 + 32 directions of 120: iterated
    rows = one_length(table).double()
    centered = rows - rows.mean(dim=0)
    exact = torch.linalg.svd(centered, full_matrices=False).Vh[:6].T
    ours = torch.nn.functional.normalize(found.basis.double(), dim=0)
    torch.testing.assert_close((centered @ ours).square().sum(), (centered @ exact).square().sum(), rtol=1e-4, atol=0.0)
    torch.testing.assert_close(ours.T @ ours, torch.eye(6, dtype=torch.float64), rtol=0.0, atol=1e-5)
    again = principal_components(table, 6, seed=0)
    assert torch.equal(found.basis, again.basis)


def test_the_bank_has_features_of_one_length_but_the_inputs_of_heads_do_not() -> None:
    views = groups([30, 30])
    longer = Views(3 * views.plain, 3 * views.weak, 3 * views.strong)
    longer.plain[:30] *= 2
    components = principal_components(longer.plain, 4, seed=0)
    seen = components.project(longer)
    plain = torch.from_numpy(longer.plain)
    torch.testing.assert_close(seen.take("plain", 0, slice(None)), (plain - components.mean) @ components.basis)
    torch.testing.assert_close(
        seen.take_bank(slice(None)), (one_length(longer.plain) - components.mean) @ components.basis
    )
    assert torch.equal(views.take_bank(slice(3)), views.take("plain", 0, slice(3)))


@pytest.mark.parametrize("changes", [{}, {"sub_batch": 20, "repeats": 2}, {"components": 4}], ids=str)
def test_heads_learn_from_fresh_views_if_there_are_any(changes: dict[str, Any]) -> None:
    views, drawn = groups([40, 40, 40]), list[Kind]()

    def fresh(kind: Kind, positions: Tensor, _: torch.Generator) -> Tensor:
        drawn.append(kind)
        return views.take(kind, 0, positions)

    settings = quick(epochs=2, **changes)
    trained = train_heads(replace(views, fresh=fresh), settings, Run())
    steps = 2 * (120 // 60)
    assert drawn.count("weak") == steps  # a new view for the labels of every step, and for every step of the optimizer
    assert drawn.count("strong") == steps * (2 * (60 // 20) if settings.sub_batch else 1)
    # If each fresh view equals the only cached one, the heads are the same.
    assert same(trained, train_heads(Views(views.plain, views.weak[:1], views.strong[:1]), settings, Run()))


def test_without_overlap_no_image_is_trained_as_two_clusters() -> None:
    views = groups([90], noise=1.0)
    probs = torch.rand(2, 90, 3, generator=torch.Generator().manual_seed(0))
    chosen = prototype_labels(torch.from_numpy(views.plain), probs / probs.sum(dim=2, keepdim=True), overlap=False)
    assert all(len(image.unique()) == len(image) == 90 for image in chosen.image)


def test_two_processes_train_the_same_heads_as_one(two_processes: Callable[..., str]) -> None:
    assert two_processes(TWO.format(tests=str(Path(__file__).parent))).count("as one") == 2 * 4


TWO = """
import sys
sys.path.insert(0, {tests!r})
import torch
from test_heads_training import groups, quick
from spice.engine.processes import join_processes
from spice.engine.run import Run
from spice.stages.heads.train import train_heads

views = groups([40, 40, 40])
changes = ({{}}, {{"sub_batch": 20}}, {{"entropy": 1.0, "overlap": False}}, {{"start": "kmeans", "components": 4}})
with join_processes(torch.device("cpu")) as processes:
    for change in changes:
        settings = quick(epochs=2, learning_rate=0.005, **change)
        two = train_heads(views, settings, Run(processes=processes))
        one = train_heads(views, settings, Run())
        for name, value in one.heads.state_dict().items():
            torch.testing.assert_close(two.heads.state_dict()[name], value, atol=1e-5, rtol=1e-4)
        assert two.best[:2] == one.best[:2]
        print("as one")
"""
