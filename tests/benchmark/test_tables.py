"""Tables: what is saved, gone on with, shown, and quoted; and that no method reads a true label by itself."""

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from spice.benchmark.choice import SEEDS, JointHeadsSettings, choices
from spice.benchmark.collected import Collected, collect, few_labels
from spice.benchmark.datasets import card_of
from spice.benchmark.methods import LABELED, METHODS, uses
from spice.benchmark.methods.spice import VARIANTS
from spice.benchmark.semi import ALGORITHMS, labeled_card
from spice.benchmark.tables import run as running
from spice.benchmark.tables.catalog import TABLES
from spice.benchmark.tables.render import comma_separated, markdown, measured, page, quotes
from spice.benchmark.tables.result import Cell, Cells, Result, result, settings_key, slug
from spice.benchmark.tables.run import Selection, data_of, run
from spice.benchmark.workbench import Workbench
from spice.data.images import Concatenated, InMemory
from spice.engine.processes import Processes
from spice.engine.run import Run
from spice.errors import UserError
from spice.models.networks import WideResNet
from spice.presets import paper
from spice.runs.records import JointResult
from spice.settings import HeadSettings

WHOLE = TABLES["whole"]
SMOKE = choices(WHOLE, "smoke")[0]
QUICK = ("k-means", "agglomerative", "NMF")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Collected:
    return collect(SMOKE, "whole", tmp_path_factory.mktemp("images"))


def closed() -> np.ndarray:
    raise AssertionError("a method opened the door to the true labels")


@pytest.mark.usefixtures("brief")
def test_no_method_opens_the_door_to_the_true_labels(whole: Collected, tmp_path: Path) -> None:
    for method in METHODS.values():
        bench = Workbench(whole._replace(known=closed, truth=closed), SMOKE, Run(folder=tmp_path))
        labels = method.fit(bench)
        assert labels.shape == (len(whole.learn),)
        assert 0 <= labels.min() <= labels.max() < SMOKE.clusters


@pytest.mark.usefixtures("brief")
def test_the_cell_of_ruc_notes_from_how_many_labels_it_began(whole: Collected, tmp_path: Path) -> None:
    bench = Workbench(whole, SMOKE, Run(folder=tmp_path))
    METHODS["RUC (SPICE-s)"].fit(bench)
    (note,) = (note for note in bench.notes if note.startswith("RUC"))
    found = re.fullmatch(r"RUC found (\d+) clean labels of 200, of (\d+) clusters", note)
    assert found, note
    assert 1 <= int(found[2]) <= min(int(found[1]), SMOKE.clusters)


def measured_cells(out: Path, seeds: Sequence[int] = (0,)) -> list[Cell]:
    return run(Selection(WHOLE, "smoke", seeds, QUICK), out)


def test_a_cell_that_is_saved_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = measured_cells(tmp_path)
    assert [cell.method for cell in first] == list(QUICK)
    monkeypatch.setattr(running, "measure", lambda *_: pytest.fail("measured again"))
    assert measured_cells(tmp_path) == first


def test_a_kill_loses_one_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, methods = running.measure, []

    def killed_at_the_second(*arguments: object) -> Cell:
        methods.append(arguments[2])
        if len(methods) == 2:
            raise KeyboardInterrupt
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(running, "measure", killed_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        measured_cells(tmp_path)
    cells = measured_cells(tmp_path)
    assert methods == ["k-means", "agglomerative", "agglomerative", "NMF"]
    assert len(cells) == 3


def test_a_change_of_settings_measures_what_depends_on_them_and_nothing_else() -> None:
    longer = SMOKE.autoencoder.model_copy(update={"epochs": 9})
    changed = SMOKE.model_copy(update={"autoencoder": longer})
    for method in WHOLE.methods:
        same = settings_key("whole", SMOKE, method) == settings_key("whole", changed, method)
        assert same == (method not in ("AE", "SDAE", "VAE", "DEC")), method
    other_images = SMOKE.model_copy(update={"train": 150})
    assert settings_key("whole", SMOKE, "k-means") != settings_key("whole", other_images, "k-means")
    assert settings_key("whole", SMOKE, "SPICE") != settings_key("split", SMOKE, "SPICE")


def test_a_damaged_cell_is_measured_anew(tmp_path: Path) -> None:
    measured_cells(tmp_path)
    (broken,) = (tmp_path / "cells").rglob("k-means-0.json")
    broken.write_text("{")
    assert len(measured_cells(tmp_path)) == 3
    assert json.loads(broken.read_text())["method"] == "k-means"


def test_every_method_says_what_it_depends_on() -> None:
    names = {method for table in TABLES.values() for method in table.methods}
    assert names <= {*METHODS, *LABELED, "Before", "After"}
    for name in names:
        assert set(uses(name)) <= set(type(SMOKE).model_fields), name


def test_unknown_methods_and_data_sets_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match="table whole at size smoke has no method 'DBSCAN': choose one of k-means, spectral"
    ):
        run(Selection(WHOLE, "smoke", [0], ["DBSCAN"]), tmp_path)
    with pytest.raises(UserError, match="table whole at size smoke has no data set 'mnist': choose one of digits"):
        run(Selection(WHOLE, "smoke", [0], data=["mnist"]), tmp_path)


def test_each_of_several_processes_measures_some_of_the_data_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [data_of(Processes(rank, 4), "full") for rank in range(4)]
    assert sorted(name for part in parts for name in part) == data_of(Processes(), "full")
    assert all(parts)
    monkeypatch.setenv("WORLD_SIZE", "2")
    selection = Selection(WHOLE, "smoke", [0], ["NMF"])
    for rank, measured_here in (("1", 0), ("0", 1)):  # there is one data set
        monkeypatch.setenv("RANK", rank)
        assert len(run(selection, tmp_path)) == measured_here
    monkeypatch.setenv("RANK", "1")
    assert len(run(selection, tmp_path)) == 1  # it finds what the other has measured


def cell(data: str, method: str, seed: int, acc: float) -> Cell:
    scores = {"ACC": acc, "NMI": acc / 2, "ARI": acc / 4}
    return Cell(
        data=data,
        method=method,
        seed=seed,
        scores=scores,
        learned=9,
        scored=5,
        seconds=1.5,
        notes=[],
        key="",
        at="2026-01-02",
        versions={},
    )


def with_todays_settings(cells: list[Cell], table: str) -> list[Cell]:
    (now,) = choices(TABLES[table], "smoke")
    return [row.model_copy(update={"key": settings_key(TABLES[table].which, now, row.method)}) for row in cells]


def made(cells: list[Cell], table: str = "split") -> Result:
    found = TABLES[table]
    return result(found, "smoke", choices(found, "smoke"), cells, command="spice bench split")


def test_the_mean_and_spread_over_seeds_are_shown_and_the_best_without_labels_is_bold() -> None:
    cells = [cell("digits", "SCAN*", seed, acc) for seed, acc in enumerate((0.5, 0.6, 0.7))]
    cells += [cell("digits", "SPICE", seed, 0.8) for seed in range(3)]
    cells += [cell("digits", "supervised", seed, 0.9) for seed in range(2)]
    text = measured(made(cells))
    rows = {line.split(" | ")[0].strip("| "): line for line in text.splitlines()}
    assert "0.600 ± 0.100" in rows["SCAN\\*"]
    assert "**0.800 ± 0.000; 0.800**" in rows["SPICE"]
    assert "0.900 ± 0.000 (2 seeds)" in rows["supervised"]
    assert "**" not in rows["supervised"]
    assert "0.920" in rows["SPICE"]  # the paper's on STL-10, beside
    assert "SCAN" not in rows  # not measured, so not there


def test_the_best_of_runs_stands_beside_the_mean_where_the_paper_compares_best_results() -> None:
    cells = [cell("digits", "SPICE", seed, acc) for seed, acc in enumerate((0.5, 0.7, 0.6))]
    for table in ("split", "detailed"):
        text = markdown(made(cells, table))
        assert "0.600 ± 0.100; 0.700" in text
        assert "| 0.300 |" in text.replace("*", "")  # NMI: the mean alone
        assert "After the semicolon: the best ACC of all seeds." in text
    assert "; 0.700" not in markdown(made(cells, "whole"))
    assert ";" not in measured(made(cells[:1]))  # of a single run


def test_cells_that_were_measured_with_other_settings_are_marked_on_the_page(tmp_path: Path) -> None:
    rows = [cell("digits", method, seed, 0.5) for method in ("SCAN*", "SPICE") for seed in range(2)]
    current = with_todays_settings(rows, "split")
    made(current).save(tmp_path / "split.json")
    assert "†" not in page(tmp_path)
    made([current[0], rows[1], *current[2:]]).save(tmp_path / "split.json")
    text = page(tmp_path)
    assert "†: measured with other settings than those of this version." in text
    found = {line.split(" | ")[0].strip("| "): line for line in text.splitlines()}
    assert found["SCAN\\*"].count("†") == 1  # beside ACC
    assert "†" not in found["SPICE"]


def test_the_caption_says_on_which_days_and_processors_the_cells_were_measured() -> None:
    cells = [cell("digits", "SPICE", seed, 0.5) for seed in range(3)]
    assert "; 2026-01-02. " in markdown(made(cells))
    assert "rocessor:" not in markdown(made(cells))
    here = [one.model_copy(update={"at": "2026-03-04 10:00", "processor": "Z80"}) for one in cells]
    assert "Processor: Z80." in markdown(made(here))
    mixed = markdown(made([*cells[:1], *here[1:]]))
    assert "; 2026-01-02 to 2026-03-04. " in mixed
    assert "Processors: Z80 (2 of 3 runs), not recorded (1 of 3 runs)." in mixed


def test_the_page_begins_with_the_accuracy_of_a_few_methods_on_each_data_set(tmp_path: Path) -> None:
    found = [cell("digits", "SPICE", 0, 0.75), cell("digits", "k-means", 0, 0.5), cell("digits", "NMF", 0, 0.9)]
    made(with_todays_settings(found, "whole"), "whole").save(tmp_path / "whole.json")
    top = page(tmp_path).partition("\n## ")[0]
    assert "| k-means | features + k-means | features + SCAN | SCAN | SPICE-s | SPICE |" in top
    assert "| 0.500 | - | - | - | - | 0.750 |" in top


def test_a_saved_table_is_read_back_and_shown_alike(tmp_path: Path) -> None:
    found = made([cell("digits", "SPICE", 0, 0.75)])
    found.save(tmp_path / "split.json")
    assert Result.load(tmp_path / "split.json") == found
    text = markdown(found)
    assert text.startswith("## Split setting: trained on train, scored on test (the paper's Table III)")
    lines = list(csv.DictReader(io.StringIO(comma_separated(found))))
    assert (lines[0]["score"], lines[0]["value"]) == ("ACC", "0.750000")
    (tmp_path / "split.json").write_text("[]")
    with pytest.raises(UserError, match="is not a table saved by `spice bench`"):
        Result.load(tmp_path / "split.json")


def test_the_page_holds_what_was_run_and_names_what_was_not(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="contains no saved table"):
        page(tmp_path)
    made([cell("digits", "SPICE", 0, 0.75)]).save(tmp_path / "split.json")
    (tmp_path / "remarks.toml").write_text('split = "SPICE is alone here."\n')
    text = page(tmp_path)
    assert "0.750" in text
    assert "SPICE is alone here." in text
    assert "Not run: whole, detailed" in text
    assert "RUC (SCAN) (quoted) | 0.867" in text
    (tmp_path / "remarks.toml").write_text('spilt = "A slip."\n')
    with pytest.raises(UserError, match="a remark on 'spilt', which is not a table"):
        page(tmp_path)


def test_the_page_in_the_docs_is_the_one_that_its_json_files_make() -> None:
    docs = Path(__file__).resolve().parents[2] / "docs"
    assert (docs / "tables.md").read_text(encoding="utf-8") == page(docs / "tables")


def test_all_tables_of_the_paper_are_quoted_in_full() -> None:
    methods = {table: len({quote.method for quote in quotes(table)}) for table in ("II", "III", "IV", "V", "VI")}
    assert methods == {"II": 21 + 2, "III": 10, "IV": 6, "V": 9, "VI": 2}
    found = {(quote.method, quote.data, quote.score): quote.mean for quote in quotes("II")}
    assert found["SPICE", "STL-10", "ACC"] == 0.938
    assert found["IDFD", "ImageNet-10", "ARI"] == 0.901
    assert found["SPICE-s", "Tiny-ImageNet-200", "NMI"] == 0.449
    assert ("SPICE", "Tiny-ImageNet-200", "ACC") not in found  # "N/A" there
    assert {quote.std for quote in quotes("VII") if (quote.method, quote.score) == ("Joint-SH", "ACC")} == {0.061}


def test_what_is_quoted_beside_a_method_is_a_method_of_that_table() -> None:
    for table in TABLES.values():
        assert {quote.here for quote in quotes(table.paper) if quote.here} <= set(table.methods), table.name
        assert all(0 <= quote.mean <= 1 for quote in quotes(table.paper))


def test_files_of_cells_have_different_names() -> None:
    names = {method for table in TABLES.values() for method in table.methods}
    assert len({slug(name) for name in names}) == len(names)
    assert slug("SCAN*") == "scan-star"


def test_cells_of_two_subsets_of_one_data_set_do_not_meet(tmp_path: Path) -> None:
    cells = Cells(tmp_path)
    other = SMOKE.model_copy(update={"train": 150})
    for choice, acc in ((SMOKE, 0.5), (other, 0.6)):
        kept = cell("digits", "k-means", 0, acc)
        cells.keep("whole", choice, kept.model_copy(update={"key": settings_key("whole", choice, "k-means")}))
    found = [cells.find("whole", choice, "k-means", 0) for choice in (SMOKE, other)]
    assert [each and each.scores["ACC"] for each in found] == [0.5, 0.6]


def test_train_and_test_do_not_meet_and_every_seed_has_the_same(tmp_path: Path) -> None:
    found = collect(SMOKE, "split", tmp_path / "once")
    assert (len(found.learn), len(found.scored)) == (200, 100)
    assert len(found.known()) == 200
    names = [set(store.collection.numbers.tolist()) for store in (found.learn, found.scored)]
    pixels = [
        {image.numpy().tobytes() for image in store.take(range(len(store)))} for store in (found.learn, found.scored)
    ]
    assert len(names[0]) == 200
    assert len(pixels[0] & pixels[1]) < 3  # equal digits of 8 x 8 pixels may be two images
    again = collect(SMOKE, "split", tmp_path / "again")
    assert torch.equal(again.learn.take(range(200)), found.learn.take(range(200)))


def test_a_data_set_without_test_images_has_no_split_setting_unless_told_how_many(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="digits has no test set"):
        collect(SMOKE.model_copy(update={"test": None}), "split", tmp_path)


def test_few_labels_are_shared_evenly_among_classes() -> None:
    labels = np.repeat(np.arange(4), [50, 50, 50, 3])
    chosen = few_labels(labels, 22, seed=0).numpy()
    assert np.bincount(labels[chosen]).tolist() == [6, 6, 5, 3]
    assert len(set(chosen.tolist())) == len(chosen)
    assert not np.array_equal(chosen, few_labels(labels, 22, seed=1).numpy())


def test_two_stores_are_one(whole: Collected) -> None:
    both = Concatenated(whole.learn, whole.scored)
    count = len(whole.learn)
    assert len(both) == 2 * count
    taken = both.take(torch.tensor([count + 3, 5, 2 * count - 1]))
    expected = whole.learn.take([3, 5, count - 1])
    assert torch.equal(taken, expected)


def test_rows_of_the_augmentation_table_name_the_views_that_they_use() -> None:
    for method in TABLES["augmentation"].methods:
        first, second = method.lower().split(" / ")
        assert VARIANTS[method] == {"label_view": first, "train_view": second}


def test_the_full_size_has_the_data_sets_of_the_paper() -> None:
    assert [choice.dataset for choice in choices(WHOLE, "full")] == [
        "stl10",
        "imagenet-10",
        "imagenet-dog",
        "cifar10",
        "cifar100-20",
        "tiny-imagenet",
    ]
    assert all(choice.train is None for table in TABLES.values() for choice in choices(table, "full"))


def test_the_data_sets_are_those_of_table_i() -> None:
    """Training images, test images, K; STL-10 also has 100,000 images without labels."""
    cards = [card_of(choice.dataset) for choice in choices(WHOLE, "full")]
    found = {card.name: (*card.counts, card.clusters) for card in cards}
    assert found == {
        "stl10": (5_000, 8_000, 100_000, 10),
        "imagenet-10": (13_000, 0, 0, 10),
        "imagenet-dog": (19_500, 0, 0, 15),
        "cifar10": (50_000, 10_000, 0, 10),
        "cifar100-20": (50_000, 10_000, 0, 20),
        "tiny-imagenet": (100_000, 10_000, 0, 200),
    }
    pixels = [choice.pixels for choice in choices(WHOLE, "full")]
    assert pixels == [96, 224, 224, 32, 32, 64]


def test_the_full_size_has_the_settings_and_runs_of_the_paper() -> None:
    assert SEEDS["full"] == (0, 1, 2, 3, 4), "each method was run five times"
    settings = {table.paper: table.which for table in TABLES.values() if table.paper}
    split = dict.fromkeys(("III", "IV", "V", "VI"), "split")
    assert settings == split | dict.fromkeys(("II", "VII", "VIII"), "whole")
    labels = {choice.dataset: choice.semi.labels for choice in choices(TABLES["semi-supervised"], "full")}
    assert labels == {"stl10": 1000, "cifar10": 250}
    for table in TABLES.values():
        for choice in choices(table, "full"):
            assert choice.heads == choice.paper_heads == paper(choice.dataset).heads
            assert choice.views == paper(choice.dataset).views
            assert choice.reliability == paper(choice.dataset).reliability
            assert choice.joint_heads == JointHeadsSettings(epochs=100, heads=10)
            assert choice.semi.start == "scratch"
            assert choice.semi.training == choice.joint
            assert (choice.encoder, choice.one_encoder) == ("scratch", False)
            # FixMatch's momentum is for wide ResNets; ResNets keep torch's.
            assert choice.joint.batch_norm_momentum == (0.001 if choice.joint.network else None)


# Stages 1 and 2, stage 3 ("same": the network of stage 1 learns on), methods with true labels.
FULL_NETWORKS = {
    "whole": {
        "stl10": ("resnet34 pool", "wrn-37-2", None),
        "imagenet-10": ("resnet34 imagenet", "same", None),
        "imagenet-dog": ("resnet34 imagenet", "same", None),
        "cifar10": ("resnet34 plain", "wrn-28-2", None),
        "cifar100-20": ("resnet34 pool", "wrn-28-8", None),
        "tiny-imagenet": ("resnet34 pool", None, None),
    },
    "split": {
        "stl10": ("resnet18 pool", "same", "resnet18"),
        "cifar10": ("resnet18 plain", "same", "resnet18"),
        "cifar100-20": ("resnet18 pool", "same", "resnet18"),
    },
    "detailed": {"stl10": ("resnet18 pool", "same", "resnet18")},
    "semi-supervised": {
        "stl10": ("resnet34 pool", "wrn-37-2", "wrn-37-2"),
        "cifar10": ("resnet34 plain", "wrn-28-2", "wrn-28-2"),
    },
    "feature-quality": {
        "stl10": ("resnet18 pool", "same", None),
        "cifar10": ("resnet18 plain", "same", None),
        "cifar100-20": ("resnet18 pool", "same", None),
    },
    "ablation": {"stl10": ("resnet34 pool", None, None)},
    "augmentation": {"stl10": ("resnet34 pool", None, None)},
    "temperature": {"stl10": ("resnet34 pool", None, None)},
    "entropy": {"tiny-imagenet": ("resnet34 pool", None, None)},
    "all-labels": {"cifar10": ("resnet34 plain", "wrn-28-2", None)},
    "frozen": {
        "stl10": ("resnet34 pool", None, None),
        "imagenet-10": ("resnet34 imagenet", None, None),
        "imagenet-dog": ("resnet34 imagenet", None, None),
        "cifar10": ("resnet34 plain", None, None),
        "cifar100-20": ("resnet34 pool", None, None),
        "tiny-imagenet": ("resnet34 pool", None, None),
    },
}


@pytest.mark.parametrize("name", TABLES)
def test_the_full_size_trains_the_papers_networks_in_every_stage(name: str) -> None:
    table, found = TABLES[name], {}
    for choice in choices(table, "full"):
        methods = set(table.methods) - set(choice.left_out)
        images = InMemory(torch.zeros(1, 3, choice.pixels, choice.pixels, dtype=torch.uint8))
        found[choice.dataset] = (
            f"{choice.features.network} {choice.features.stem}",
            (choice.joint.network or "same") if methods & {"SPICE", "After"} else None,
            labeled_card(choice, images).network if methods & set(ALGORITHMS) else None,
        )
    assert found == FULL_NETWORKS[name]


def test_one_row_of_table_iii_has_the_networks_of_the_whole_setting() -> None:
    row, wholes = "SPICE (ResNet-34)", {choice.dataset: choice for choice in choices(WHOLE, "full")}
    wanted = {cell.choice.dataset: cell.choice for cell in Selection(TABLES["split"], "full", [0], [row]).cells()}
    assert set(wanted) == {"stl10", "cifar10", "cifar100-20"}
    for dataset, choice in wanted.items():
        assert choice.features == wholes[dataset].features
        assert choice.joint == wholes[dataset].joint
        assert (choice.features.network, (choice.joint.network or "")[:3]) == ("resnet34", "wrn")
    others = {cell.choice.features.network for cell in Selection(TABLES["split"], "full", [0], ["SPICE"]).cells()}
    assert others == {"resnet18"}


def test_a_method_with_true_labels_trains_the_network_that_the_settings_name() -> None:
    choice, images = choices(TABLES["semi-supervised"], "full")[0], InMemory(torch.zeros(1, 3, 96, 96).byte())
    assert isinstance(labeled_card(choice, images).build(), WideResNet)


def test_a_method_that_draws_nothing_is_run_once(tmp_path: Path) -> None:
    cells = measured_cells(tmp_path, seeds=(0, 1))
    assert [(each.method, each.seed) for each in cells if each.method == "agglomerative"] == [("agglomerative", 0)]
    assert [each.seed for each in cells if each.method == "NMF"] == [0, 1]


def test_a_finished_stage_is_found_again_and_its_time_is_told_all_the_same(whole: Collected, tmp_path: Path) -> None:
    def refined() -> tuple[Workbench, set[str]]:
        seen: set[str] = set()
        told = lambda task, *_: seen.add(task)  # noqa: E731
        bench = Workbench(whole, SMOKE, Run(folder=tmp_path, progress=told))
        assert bench.refined() is not None
        return bench, seen

    first, did = refined()
    assert {"features", "computing features", "heads", "joint training"} <= did
    assert first.spent_here > sum(first.charged.values()) > 0
    again, did = refined()
    assert not {"features", "heads", "joint training"} & did
    assert again.spent_here == 0
    assert again.charged == first.charged
    ours, theirs = (METHODS["SPICE"].fit(bench) for bench in (first, again))
    assert np.array_equal(ours, theirs)


def test_what_is_saved_is_shown_without_running_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(Selection(WHOLE, "smoke", [0], ["NMF"]), tmp_path)
    monkeypatch.setattr(running, "measure", lambda *_: pytest.fail("measured"))
    assert [each.method for each in running.saved(Selection(WHOLE, "smoke", [0, 1]), tmp_path)] == ["NMF"]


def test_a_settings_file_changes_every_data_set(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[heads]\nheads = 3\n")
    selection = Selection(WHOLE, "smoke", [0], settings_file=tmp_path / "mine.toml")
    assert [choice.heads.heads for choice in selection.choices()] == [3]
    (tmp_path / "mine.toml").write_text("[autoencoder]\nwidht = 3\n")
    with pytest.raises(UserError, match=r"unknown setting autoencoder\.widht; did you mean autoencoder\.width\?"):
        selection.choices()


def test_joint_training_on_all_labels_learns_every_label_of_stage_2(whole: Collected, tmp_path: Path) -> None:
    def learned(*, all_labels: bool) -> int:
        bench = Workbench(whole, SMOKE, Run(0, tmp_path))
        bench.refined(all_labels=all_labels)
        execution = bench._execution(SMOKE.heads, SMOKE.joint, all_labels=all_labels)
        record = execution.ensure("joint")
        assert isinstance(record.result, JointResult)
        return record.result.labeled

    assert learned(all_labels=True) == len(whole.learn)
    assert learned(all_labels=False) < len(whole.learn)


def test_the_temperatures_are_those_that_the_paper_tried() -> None:
    tried = [VARIANTS[method]["temperature"] for method in TABLES["temperature"].methods if method in VARIANTS]
    assert tried == [0.01, 0.05, 0.07, 0.1, 0.2, 0.5, 0.8, 2.0]
    assert VARIANTS["TCE"] == {"loss": "temperature"}
    assert HeadSettings(clusters=2).temperature == 0.2, "the best of them is the row of Table VII"


def test_the_entropy_table_compares_two_hundred_clusters_with_and_without_the_term() -> None:
    assert choices(TABLES["entropy"], "full")[0].clusters == 200
    (on_cpu,) = choices(TABLES["entropy"], "cpu")
    assert on_cpu.clusters == on_cpu.paper_heads.clusters == len(card_of(on_cpu.dataset).classes) == 100
    assert [VARIANTS[method]["entropy"] for method in TABLES["entropy"].methods] == [0.0, 1.0]
