"""What happens to collections that are too large for heads to learn from all images."""

import html
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow.parquet as pq
import pytest
from small_settings import with_few_heads

from spice import arrays, tables
from spice.errors import UserError
from spice.neighbors import search
from spice.pipeline import cluster
from spice.pipeline.execute import DamagedFileWarning
from spice.presets import heads_sample, standard
from spice.runs import open_result
from spice.runs.artifacts import FEATURES, HEAD_LABELS, LABELS, NEIGHBORS, PROBABILITIES, SIMILARITIES
from spice.runs.artifacts import IMAGES as TABLE_OF_IMAGES
from spice.runs.explain_image import explain_image
from spice.runs.records import NeighborsResult, damaged_files
from spice.settings import RunSettings
from spice.web.content import column, paths
from spice.web.session import Session

GROUPS, IMAGES, LEARNED = 4, 1200, 300
PIECE = 64 << 10


def made() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    truth = random.integers(0, GROUPS, IMAGES)
    centers = 8 * np.eye(GROUPS, 16)
    return (centers[truth] + random.normal(size=(IMAGES, 16))).astype(np.float32), truth


def settings(clusters: int = GROUPS) -> RunSettings:
    usual = with_few_heads(standard(clusters=clusters), heads=3, epochs=2)
    return usual.model_copy(update={"views": usual.views.model_copy(update={"sample": LEARNED})})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("large") / "run"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search, "APPROXIMATE_FROM", IMAGES)
        cluster(made()[0], settings(), out)
    return out


def test_heads_learn_from_a_sample_and_label_all_images(run: Path) -> None:
    result = open_result(run)
    assert result.heads.learned_from == LEARNED
    assert len(result.labels.path) == IMAGES
    truth = made()[1]
    pairs = set(zip(truth.tolist(), result.labels.cluster.tolist(), strict=True))
    assert len(pairs) == GROUPS  # one cluster for every group: images outside the sample are right, too
    with np.load(result / HEAD_LABELS) as kept:
        assert set(kept["rows"]) <= set(np.load(result.run / result.entry.folders["views"] / "views" / "rows.npy"))
        assert kept["rows"].max() >= LEARNED  # rows of the collection, not of the sample


def test_the_page_and_the_record_say_what_was_sampled_and_what_was_missed(run: Path) -> None:
    result = open_result(run)
    found = cast(NeighborsResult, result.records["neighbors"].result)
    assert 0.95 <= found.recall <= 1.0
    page = html.unescape((run / "report.html").read_text(encoding="utf-8"))
    assert f"They were trained on {LEARNED} randomly drawn images" in page
    assert ("the search is approximate" in page) == (found.recall < 1)


def test_a_small_collection_is_learned_whole(tmp_path: Path) -> None:
    few, wanted = made()[0][:LEARNED], settings()
    summary = cluster(few, wanted, tmp_path / "run", page=False)
    result = open_result(tmp_path / "run")
    assert summary.heads is not None
    assert summary.heads.learned_from == LEARNED
    assert cast(dict[str, object], result.entry.settings["views"])["sample"] is None
    assert not (result.run / result.entry.folders["views"] / "views" / "rows.npy").exists()


@pytest.mark.skipif(not arrays.CAN_JOIN, reason="nothing is cut on this system")
def test_a_run_in_pieces_gives_the_same_bytes_and_repairs_itself(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    monkeypatch.setattr(search, "APPROXIMATE_FROM", IMAGES)
    monkeypatch.setattr(arrays, "PIECE_BYTES", PIECE)
    cluster(made()[0], settings(), out, page=False)
    result, whole = open_result(out), open_result(run)
    files = [path for path in out.rglob("*.npy*") if path.is_file()]
    assert max(path.stat().st_size for path in files) <= PIECE
    for artifact in (FEATURES, NEIGHBORS, SIMILARITIES, PROBABILITIES):
        joined = [result / artifact, *arrays.further_pieces(result / artifact)]
        assert b"".join(path.read_bytes() for path in joined) == (whole / artifact).read_bytes()
        assert len(joined) == -(-(whole / artifact).stat().st_size // PIECE)
    assert (out / "labels.csv").read_bytes() == (run / "labels.csv").read_bytes()
    np.testing.assert_array_equal(result.neighbors, whole.neighbors)
    damaged = arrays.piece(result / FEATURES, 1)
    good = damaged.read_bytes()
    damaged.write_bytes(good[:100] + b"?" + good[101:])
    assert damaged_files(out, result.entry.folders) == [damaged]
    with pytest.warns(DamagedFileWarning, match=r"features.npy.001 changed after it was written"):
        cluster(made()[0], settings(GROUPS - 1), out, page=False)
    assert damaged.read_bytes() == good


def test_tables_in_several_files_hold_the_same_and_repair_themselves(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    monkeypatch.setattr(search, "APPROXIMATE_FROM", IMAGES)
    monkeypatch.setattr(tables, "ROWS_PER_FILE", 500)
    cluster(made()[0], settings(), out)
    result, whole = open_result(out), open_result(run)
    for artifact in (LABELS, TABLE_OF_IMAGES):
        assert [path.name for path in sorted((result / artifact).iterdir())] == [
            f"part-0000{part}.parquet" for part in range(3)
        ]
        assert pq.read_table(result / artifact).equals(pq.read_table(whole / artifact))
    assert pq.read_table(out / "labels.parquet").num_rows == IMAGES
    assert (out / "labels.csv").read_bytes() == (run / "labels.csv").read_bytes()
    assert explain_image(out, "7").path == "7"
    opened = Session(out).state()
    assert paths(opened) == whole.labels.path
    np.testing.assert_array_equal(column(opened, "group"), whole.labels.cluster)
    damaged = result / LABELS / "part-00001.parquet"
    good = damaged.read_bytes()
    damaged.unlink()
    assert damaged_files(out, result.entry.folders) == [damaged]
    with pytest.raises(UserError, match=r"labels.parquet is damaged; recreate it with: spice resume"):
        _ = result.reread().labels
    cluster(made()[0], settings(), out, page=False)
    assert damaged.read_bytes() == good


def test_many_clusters_get_a_larger_sample() -> None:
    assert heads_sample(10) == heads_sample(100) == 40_000
    assert heads_sample(1000) == 400_000
