"""`spice bench`: every table at its smallest size, and one step of every configuration of the largest."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from spice.benchmark.rivals import scan, temi
from spice.benchmark.tables.catalog import TABLES
from spice.benchmark.tables.estimate import parts
from spice.benchmark.tables.sizes import choices
from spice.cli import app
from spice.cli.bench import _numbers
from spice.errors import UserError


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture
def bench(out: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    for module in (scan, temi):
        monkeypatch.setattr(module, "EPOCHS", 2)
        monkeypatch.setattr(module, "LEAST_STEPS", 4)

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
    assert TABLES[name].title in ended.output
    assert (out / "smoke" / f"{name}.md").read_text() in ended.output
    assert (out / "smoke" / f"{name}.csv").read_text().startswith("table,size,data,method,seed,score,value,seconds")


@pytest.mark.slow
def test_one_step_of_every_configuration_of_the_paper_runs() -> None:
    tried = set()
    for name, table in TABLES.items():
        for choice in choices(table, "full"):
            key = (choice.dataset, table.which) if name in ("whole", "split") else (choice.dataset, name)
            if name not in ("whole", "split", "semi-supervised"):
                continue  # the same networks and settings as in these
            for part in parts(choice, table, batch=2):
                assert part.seconds > 0
                assert part.amount > 0
                tried.add((*key, part.name))
    assert ("tiny-imagenet", "whole", "stage 1, images") in tried
    assert ("stl10", "semi-supervised", "MixMatch, views") in tried
    assert ("cifar10", "split", "stage 3, views") in tried


def test_seeds_are_given_as_ranges_and_lists() -> None:
    assert _numbers("0-2,7, 1") == [0, 1, 2, 7]
    for wrong in ("", "a", "3-", "-1", "4-2"):
        with pytest.raises(UserError):
            _numbers(wrong)


def test_the_help_lists_every_table() -> None:
    shown = CliRunner().invoke(app, ["bench", "--help"]).output
    assert all(name in shown for name in (*TABLES, "page"))
