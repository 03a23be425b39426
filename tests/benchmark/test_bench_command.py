"""`spice bench`: every table at its smallest size, and one step of every configuration of the largest."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from spice.benchmark.choice import choices
from spice.benchmark.methods.spice import VARIANTS
from spice.benchmark.semi import ALGORITHMS
from spice.benchmark.tables.catalog import TABLES, SizeName
from spice.benchmark.tables.estimate import Cost, Count, Part, Trial, estimate, parts, stage_2_runs
from spice.cli import app
from spice.cli.bench import _seed_numbers
from spice.engine.processes import CPU
from spice.engine.run import Run
from spice.errors import UserError


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture
def bench(out: Path, brief: None) -> Callable[..., Result]:
    def call(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["bench", *arguments, "--out", str(out)])

    return call


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_every_table_runs_at_its_smallest_size(name: str, bench: Callable[..., Result], out: Path) -> None:
    ended = bench(name, "--size", "smoke", "--seeds", "0")
    assert ended.exit_code == 0, ended.output
    saved = json.loads((out / "smoke" / f"{name}.json").read_text())
    assert [cell["method"] for cell in saved["cells"]] == list(TABLES[name].methods)
    for cell in saved["cells"]:
        assert all(-1 <= value <= 1 for value in cell["scores"].values())
        assert set(TABLES[name].scores) - set(cell["scores"]) <= {"reliable labels"}
        assert torch.__version__.startswith(cell["versions"]["torch"].partition("+")[0])
        assert cell["processor"].endswith(torch.backends.cpu.get_cpu_capability())
    assert TABLES[name].title in ended.output
    assert (out / "smoke" / f"{name}.md").read_text() in ended.output
    assert (out / "smoke" / f"{name}.csv").read_text().startswith("table,size,data,method,seed,score,value,seconds")


CONFIGURATIONS = [(name, choice.dataset) for name, table in TABLES.items() for choice in choices(table, "full")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dataset"), CONFIGURATIONS)
def test_one_step_of_every_configuration_of_the_paper_runs(name: str, dataset: str) -> None:
    (choice,) = (choice for choice in choices(TABLES[name], "full") if choice.dataset == dataset)
    few_heads = choice.heads.model_copy(update={"batch": 2 * choice.clusters})  # the paper's thousand takes seconds
    # The networks as named, at a quarter of their width.
    narrow = choice.features.model_copy(update={"width": 16})
    larger = choice.larger and choice.larger.model_copy(
        update={"features": choice.larger.features.model_copy(update={"width": 16})}
    )
    changed = {"heads": few_heads, "paper_heads": few_heads, "features": narrow, "larger": larger}
    choice = choice.model_copy(update=changed)
    found = {part.name: part for part in parts(choice, TABLES[name], few=2, affordable=0.0)}
    assert all(part.seconds > 0 and part.amount > 0 for part in found.values())
    methods = set(TABLES[name].methods) - set(choice.left_out)
    scan = {"SCAN*", "SCAN", "RUC (SCAN)"}
    trained = {  # what is trained, and for which methods
        "stage 1, steps": methods,
        "views, images": methods,
        "stage 2": {"SPICE-s", "SPICE", "Before", "SPICE-s of the paper", *VARIANTS},
        "stage 2, new views": {"SPICE-s", "SPICE", "Before", "SPICE-s of the paper", *VARIANTS},
        "stage 3, steps": {"SPICE", "After", "SPICE on all labels"},
        "stage 3, steps (SPICE (ResNet-34))": {"SPICE (ResNet-34)"},
        "Autoencoder, steps": {"AE", "VAE"},
        "StackedAutoencoder, steps": {"SDAE", "DEC"},
        "DEC, steps": {"DEC"},
        "NeighborStep, steps": scan,
        "SelfLabeling, steps": scan - {"SCAN*"},
        "RUC, steps": {"RUC (SCAN)", "RUC (SPICE-s)"},
        **{f"{rival}, steps": {rival} for rival in ("IIC", "PICA", "CC", "IDFD", "Joint-SH", "Joint-MH")},
        **{f"{rival}, steps": {rival} for rival in ALGORITHMS},
    }
    for part, users in trained.items():
        assert any(each.startswith(part) for each in found) == bool(users & methods), part
    unlabeled = 100_000 if dataset == "stl10" else 0
    images = found["views, images"].amount / (1 + choice.views.weak + choice.views.strong)
    steps = (images + unlabeled) // choice.features.batch
    assert found["stage 1, steps"].amount == choice.features.epochs * steps


def test_methods_with_the_same_settings_of_stage_2_are_estimated_once() -> None:
    def runs(name: str, size: SizeName = "full") -> list[int]:
        return list(stage_2_runs(choices(TABLES[name], size)[0], TABLES[name].methods).values())

    assert runs("whole") == runs("split") == runs("semi-supervised") == runs("feature-quality") == [1]
    assert runs("ablation") == [5]  # Non-overlap, Entropy, CE, TCE and the paper's own
    assert runs("augmentation") == [4]
    assert runs("temperature") == [9]
    assert runs("entropy") == [2]
    assert runs("all-labels") == [1]
    assert runs("frozen") == [1]
    assert runs("frozen", "cpu") == [1, 1]  # SPICE-s has settings of its own there


def test_what_all_seeds_share_is_estimated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    second = Cost(1.0, extrapolated=False)
    made = [Part("stage 1, steps", 600, second), Part("views, images", 60, second), Part("stage 2, steps", 60, second)]
    monkeypatch.setattr("spice.benchmark.tables.estimate.parts", lambda *_, **__: made)
    few = estimate(TABLES["semi-supervised"], "cpu", device="cpu")  # two data sets with one feature model each
    assert "one seed   24 min 00 s, 3 seeds 28 min 00 s" in few
    many = estimate(TABLES["semi-supervised"], "full", device="cpu")  # two data sets, a feature model for every seed
    assert "one seed   24 min 00 s, 5 seeds 2 h 00 min" in many


@pytest.mark.parametrize(
    ("seconds", "tried", "expected"),
    [
        (lambda images: 0.1, [8, 32, 128], Cost(0.1, extrapolated=False)),  # as of fully connected layers
        (lambda images: images / 100, [8, 32], Cost(1.28, extrapolated=True)),
        (lambda images: images / 10, [8], Cost(12.8, extrapolated=True)),
    ],
)
def test_the_real_batch_is_timed_where_a_step_of_it_is_affordable(
    seconds: Callable[[int], float], tried: list[int], expected: Cost, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    batches: list[int] = []

    def learn(images: int, run: Run) -> None:
        nonlocal now
        batches.append(images)
        for step in range(3):
            now += seconds(images) + 60.0 * (step == 0)  # the first is slow, and is not counted
            run.progress("learning", step + 1, 3)

    monkeypatch.setattr("time.process_time", lambda: now)
    trial = Trial(choices(TABLES["whole"], "smoke")[0], Count(2000, 0), few=8, affordable=0.5, device=CPU)
    found = trial.step(128, learn)
    assert batches == tried
    assert found.seconds == pytest.approx(expected.seconds)
    assert found.extrapolated == expected.extrapolated


def test_seeds_are_given_as_ranges_and_lists() -> None:
    assert _seed_numbers("0-2,7, 1") == [0, 1, 2, 7]
    for wrong in ("", "a", "3-", "-1", "4-2"):
        with pytest.raises(UserError):
            _seed_numbers(wrong)


def test_the_help_lists_every_table() -> None:
    shown = CliRunner().invoke(app, ["bench", "--help"]).output
    assert all(name in shown for name in (*TABLES, "all", "page"))
