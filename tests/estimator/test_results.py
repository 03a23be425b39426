"""What a fitted model shows: a table, contact sheets, a repr, progress, and warnings at the user's line."""

import logging
import pickle
import re
import urllib.request
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import make_blobs
from sklearn.model_selection import GridSearchCV

import spice
from spice import SPICE
from spice.errors import SpiceWarning, UserError, warn_user
from spice.notebook import explorer
from spice.notebook.progress import Bars
from spice.notebook.sheet import Section, contact_sheet
from spice.runs.editor import Editor
from spice.runs.edits import Merge, Name

pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def kept(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> SPICE:
    return SPICE(4, size=64, run_folder=tmp_path_factory.mktemp("kept") / "run").fit(shapes)


@pytest.fixture(scope="module")
def fitted(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> SPICE:
    """Of a list in which one file cannot be read; the run is not kept."""
    broken = tmp_path_factory.mktemp("broken") / "broken.png"
    broken.write_bytes(b"no image")
    return SPICE(4, size=64).fit([*sorted(shapes.rglob("*.png")), broken])


def test_the_table_has_a_line_for_every_image(fitted: SPICE, kept: SPICE) -> None:
    table = fitted.table()
    assert table.columns[:4].tolist() == ["path", "group", "name", "chance"]
    assert len(table) == 97
    np.testing.assert_array_equal(table["group"], fitted.labels_)
    np.testing.assert_array_equal(table["chance"], fitted.chance_)
    assert table["group"].iloc[96] == -1
    assert np.isnan(table["chance"].iloc[96])
    assert kept.answers_.run is not None
    written = pandas.read_csv(kept.answers_.run / "labels.csv", keep_default_na=False)
    ours = kept.table().sort_values("path", ignore_index=True)
    assert set(ours.columns) == set(written.columns)
    np.testing.assert_array_equal(ours["path"], written["path"])
    np.testing.assert_array_equal(ours["group"], written["group"])
    np.testing.assert_allclose(ours["chance"], written["chance"], atol=1e-6)


def _colors(sheet: Image.Image) -> int:
    return len(sheet.getcolors(1 << 24) or [])


def test_a_contact_sheet_shows_one_group_or_all(fitted: SPICE, kept: SPICE) -> None:
    for model in (fitted, kept, pickle.loads(pickle.dumps(fitted))):
        one, all_ = model.show(2, images=10), model.show()
        assert isinstance(one, Image.Image)
        assert all_.size == (one.width, 4 * (one.height - 4) + 4), "a row of ten for every group"
        assert _colors(one) > 50, "there are pictures on it"
    with pytest.raises(UserError, match=r"there is no group 9; the groups are: 0, 1, 2, 3"):
        fitted.show(9)


def test_a_sheet_shows_the_pictures_of_its_group_in_rows() -> None:
    red, blue = Image.new("RGB", (20, 20), "red"), Image.new("L", (40, 40), 90)
    sheet = contact_sheet([Section("first", [red] * 3), Section("second", [blue])], side=200, columns=2)
    assert sheet.size == (2 * 204 + 4, 2 * 26 + 3 * 204 + 4)
    assert sheet.getpixel((100, 26 + 100)) == (255, 0, 0)
    assert sheet.getpixel((100, 26 + 204 + 100)) == (255, 0, 0), "the third starts a new row"
    assert sheet.getpixel((300, 26 + 204 + 100)) == (255, 255, 255)
    assert sheet.getpixel((100, 2 * 26 + 2 * 204 + 100)) == (90, 90, 90)


def test_names_and_merges_are_seen_in_table_sheet_and_loaded_run(shapes: Path, tmp_path: Path) -> None:
    model = SPICE(4, size=64, run_folder=tmp_path / "run").fit(shapes)
    editor = Editor(tmp_path / "run")
    editor.do(Name(group=1, name="rings"))
    editor.do(Merge(groups=[2, 3]))
    table = model.table()
    assert set(table.loc[table["group"] == 1, "name"]) == {"rings"}
    assert sorted(set(table["group"])) == [0, 1, 2]
    assert model.show("rings").size == model.show(1).size
    assert "3 groups" in repr(model)
    loaded = spice.load(tmp_path / "run")
    pandas.testing.assert_frame_equal(loaded.table(), table)
    np.testing.assert_array_equal(loaded.labels_, model.labels_)
    np.testing.assert_array_equal(loaded.predict(shapes), model.predict(shapes))
    with pytest.raises(UserError, match="a model alone contains no images"):
        spice.load(tmp_path / "run" / "model").table()


def test_a_repr_says_what_was_fitted(fitted: SPICE) -> None:
    assert repr(SPICE(4)) == "SPICE(n_clusters=4)"
    assert repr(fitted).startswith("SPICE(n_clusters=4, size=64): 96 images, 4 groups, ")
    assert re.search(r"mean chance \d+%, 1 could not be read$", repr(fitted))
    assert "96 images, 4 groups" in fitted._repr_mimebundle_()["text/html"]


def test_the_explorer_is_opened_where_there_is_a_run(fitted: SPICE, kept: SPICE) -> None:
    address, run = kept.open(browser=False), kept.answers_.run
    assert run is not None
    try:
        assert kept.open(browser=False) == address, "it is served once"
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(address) as page:
            assert b"<html" in page.read()
    finally:
        process, _ = explorer._started.pop(run)
        process.terminate()
        process.communicate()
    with pytest.raises(UserError, match="fit with one: SPICE"):
        fitted.open()
    with pytest.raises(UserError, match="cannot open"):
        explorer.explore(Path("nowhere"), browser=False)


def test_probabilities_come_as_a_frame_where_scikit_learn_is_told_so() -> None:
    features, _ = make_blobs(60, 5, centers=3, random_state=0)
    model = SPICE(3).fit(features)
    model.set_output(transform="pandas")
    found: Any = model.transform(features)
    assert found.columns.tolist() == ["spice0", "spice1", "spice2"]
    np.testing.assert_array_equal(found.to_numpy(), model.predict_proba(features))


def test_the_score_finds_the_number_of_groups_and_not_the_smallest() -> None:
    centers = np.eye(6, 12) * 6
    features, _ = make_blobs(120, centers=centers, cluster_std=0.6, random_state=0)
    search = GridSearchCV(SPICE(), {"n_clusters": [2, 6]}, cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpiceWarning)
        search.fit(features)
    assert search.best_params_ == {"n_clusters": 6}
    one = SPICE(2).fit(features)
    assert one.score(features[:1]) == -1.0


@pytest.mark.parametrize("verbose", [True, False])
def test_verbose_prints_lines_in_a_script_and_silence_is_the_default(
    verbose: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    features, _ = make_blobs(60, 5, centers=3, random_state=0)
    log = logging.getLogger("spice")
    before = log.level
    log.setLevel(logging.WARNING)  # as in a program that has not set up any logging, whatever other tests did
    capsys.readouterr()
    SPICE(3, verbose=verbose).fit(features)
    printed = capsys.readouterr()
    assert log.level == logging.WARNING
    log.setLevel(before)
    assert ("heads: " in printed.err) == verbose
    assert printed.out == ""
    assert (printed.err == "") != verbose
    assert not log.handlers


def test_bars_in_a_notebook_are_drawn_for_every_task() -> None:
    bars, drawn = Bars(), list[str]()
    bars._show = lambda: drawn.append(bars.as_html())  # type: ignore[method-assign]
    bars("reading <images>", 1, 10)
    bars("reading <images>", 2, 10)
    bars("reading <images>", 10, 10)
    bars("heads", 3, 3, {"loss": 0.5})
    assert len(drawn) == 3, "not for every step"
    assert "reading &lt;images&gt;" in drawn[-1]
    assert "<progress value='3' max='3'>" in drawn[-1]
    assert "loss 0.5" in drawn[-1]


def test_warnings_point_at_the_line_of_the_user() -> None:
    noise = np.random.default_rng(0).normal(size=(60, 8))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SPICE(6).fit(noise)
        SPICE(6).fit_predict(noise)
    ours = [warning for warning in caught if issubclass(warning.category, SpiceWarning)]
    assert ours
    assert {warning.filename for warning in ours} == {__file__}


def test_every_warning_has_a_documented_class() -> None:
    text = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    for name in ("spice.pipeline", "spice.models.huggingface", "spice.stages.features.moco"):
        __import__(name)
    kinds = SpiceWarning.__subclasses__()
    assert len(kinds) >= 12
    missing = [kind.__name__ for kind in kinds if kind.__name__ not in text and kind.__module__.startswith("spice.")]
    assert missing == []
    with pytest.warns(SpiceWarning, match="hello") as caught:
        warn_user("hello", SpiceWarning)
    assert caught[0].filename == __file__
