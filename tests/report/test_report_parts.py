"""What the page says, without a browser: which images, which verdict, where on the map."""

import html
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch
from made_run import made_labels
from numpy.typing import NDArray
from pictured_runs import HARMFUL, make_pictured_run, natural
from PIL import Image

from spice.errors import UserError
from spice.report import embedding, page, write_report
from spice.report.card_images import choose_images, with_attention
from spice.report.charts import histogram
from spice.report.content import read_content
from spice.report.embedding import embed
from spice.report.pictures import MOST_TILES, SHEET_PIXELS, Attention, overlay, read_sheets, tile_side, write_pictures
from spice.report.verdict import Evidence, Verdict, verdicts
from spice.runs import Labels, Result, RunFolder, open_result
from spice.runs.artifacts import HEAD_LABELS, MAP, NEIGHBORS, PICTURES
from spice.stages.attention import attention
from spice.trust.check import Estimate
from spice.trust.evidence import Parts, neighbor_votes
from spice.trust.grade import Grade
from spice.wording import quoted


def labels_of(reliability: list[float], margin: list[float], cluster: list[int]) -> Labels:
    """Labels in the order of nearness to the center."""
    return made_labels(cluster, reliability, margin=np.array(margin, dtype=np.float32))


def test_no_image_is_shown_twice_on_a_card_and_each_kind_is_what_it_says(small: Result) -> None:
    labels = small.labels
    for number, chosen in enumerate(choose_images(labels, 6)):
        rows = np.concatenate(chosen)
        assert len(np.unique(rows)) == len(rows)
        assert (labels.cluster[rows] == number).all()
        assert sorted(labels.prototype_rank[chosen.prototypes]) == list(range(len(chosen.prototypes)))
        assert not labels.reliable[chosen.doubtful].any()
        others = np.setdiff1d(np.flatnonzero((labels.cluster == number) & ~labels.reliable), rows)
        if len(others):
            assert labels.reliability[chosen.doubtful].max() <= labels.reliability[others].min()
    assert [len(kind) for kind in choose_images(labels, 6)[5]] == [0, 0, 0, 0]  # the empty cluster


def test_many_clusters_get_fewer_pictures_each() -> None:
    labels = labels_of([1.0] * 4000, [0.9] * 4000, [row % 400 for row in range(4000)])
    chosen = choose_images(labels, 400)
    assert [len(rows) for rows in chosen[7]] == [1, 0, 0, 0]
    assert (
        sum(
            len(rows)
            for kinds in choose_images(labels_of([1.0] * 4000, [0.9] * 4000, [0, 1] * 2000), 100)
            for rows in kinds
        )
        <= 1200
    )
    assert sum(len(rows) for rows in with_attention(chosen)) == 0


def judged(votes: list[list[float]], **evidence: object) -> list[Verdict]:
    """Verdicts on clusters of four images with these votes."""
    clusters = len(votes)
    labels = labels_of([0.9] * 4 * clusters, [0.9] * 4 * clusters, [row // 4 for row in range(4 * clusters)])
    return verdicts(labels, Evidence(np.array(votes), **{"near": np.array(votes), **evidence}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("own", "grade"), [(1.0, Grade.GOOD), (0.95, Grade.GOOD), (0.8, Grade.MIXED), (0.6, Grade.WEAK), (0.25, Grade.WEAK)]
)
def test_a_cluster_is_the_better_the_fewer_clusters_its_neighbors_come_from(own: float, grade: Grade) -> None:
    votes = np.full((8, 8), (1 - own) / 7)
    np.fill_diagonal(votes, own)
    found = judged(votes.tolist())[0]
    assert found.grade == grade
    assert "mean chance 90%" in found.reason


def test_half_of_the_neighbors_in_one_other_cluster_is_mixed_and_an_empty_cluster_is_weak() -> None:
    found = judged([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert found[0].grade == Grade.MIXED
    assert found[0].groups == pytest.approx(2.0)
    assert judged([[0.05, 0.95], [0.0, 1.0]])[0].grade == Grade.WEAK, "its neighbors come from one group, but another"
    assert judged([[0.95, 0.05], [0.0, 1.0]])[0].grade == Grade.GOOD
    labels = labels_of([1.0] * 4, [0.9] * 4, [0] * 4)
    votes = np.array([[1.0, 0.0], [0.0, 0.0]])
    empty = verdicts(labels, Evidence(votes, votes))[1]
    assert (empty.grade, empty.reason, empty.advice) == (Grade.WEAK, "no images", "")


@pytest.mark.parametrize(
    ("overlap", "words"),
    [
        (0.9, "other heads found it too"),
        (0.5, "other heads found part of it"),
        (0.49, "other heads split it differently"),
    ],
)
def test_the_reason_says_what_other_heads_found(overlap: float, words: str) -> None:
    votes = [[1.0, 0.0], [0.0, 1.0]]
    found = judged(votes, overlap=[overlap, 0.0])[0]
    assert found.heads == overlap
    assert words in found.reason
    assert "heads" not in judged(votes)[0].reason


def test_answers_of_a_check_take_the_place_of_the_chance() -> None:
    found = judged([[1.0, 0.0], [0.0, 1.0]], checked={0: Estimate(0.5, 0.2, 0.8, 12)})
    assert "50% (20% to 80%) of its images are right (12 checked)" in found[0].reason
    assert "chance" in found[1].reason


def test_two_clusters_that_share_their_neighbors_are_advised_to_merge_and_nothing_is_split() -> None:
    parts = [None, None, Parts((60, 40), 0.01)]
    found = judged([[0.8, 0.2, 0.0], [0.15, 0.85, 0.0], [0.0, 0.0, 1.0]], parts=parts)
    assert "show the same as group 1: each has at least 15% of its neighbors in the other" in found[0].advice
    assert "show the same as group 0" in found[1].advice
    assert found[2].advice == ""
    one_sided = judged([[0.8, 0.2, 0.0], [0.14, 0.86, 0.0], [0.0, 0.0, 1.0]], parts=parts)
    assert [verdict.advice for verdict in one_sided[:2]] == ["", ""]
    assert "two parts of 60 and 40 images: only 1% of the links" in one_sided[2].advice


def test_only_the_loosest_clusters_are_advised_to_split() -> None:
    parts = [Parts((50, 50), links) for links in (0.05, 0.2, 0.01, 0.09, 0.02)]
    found = judged(np.eye(5).tolist(), parts=parts)
    assert ["Split it" in verdict.advice for verdict in found] == [True, False, True, False, True]


def test_leftovers_and_what_the_encoder_does_not_separate_get_other_advice() -> None:
    scattered, two = np.full(8, 0.125), np.array([0.3, 0.4, 0.06, 0.06, 0.06, 0.06, 0.06, 0.0])
    votes = np.vstack([scattered, two[[1, 0, *range(2, 8)]], np.eye(8)[2:]])
    found = judged(votes.tolist())
    assert "leftovers from many groups" in found[0].advice
    assert "the encoder does not separate it from other groups" in found[1].advice
    assert [verdict.advice for verdict in found[2:]] == [""] * 6


def test_at_most_three_leftovers_are_set_aside_as_more_mean_too_many_groups() -> None:
    votes = np.full((12, 12), 0.03)
    np.fill_diagonal(votes, [0.67, 0.6, 0.5, 0.4, 0.3, *[1.0] * 7])
    votes[5:] = np.eye(12)[5:]
    found = judged((votes / votes.sum(axis=1, keepdims=True)).tolist())
    assert [verdict.grade for verdict in found[:5]] == [Grade.WEAK] * 5
    assert ["Set it aside?" in verdict.advice for verdict in found[:5]] == [False, False, True, True, True]
    assert all("Try fewer groups?" in verdict.advice for verdict in found[:2])


def test_a_cluster_is_confused_with_the_one_its_neighbors_lie_in() -> None:
    labels = labels_of([0.5] * 6, [0.9] * 6, [0, 0, 1, 1, 2, 2])
    neighbors = np.array([[1, 4], [0, 5], [3, 0], [2, 1], [5, 4], [4, 5]])
    votes = neighbor_votes(labels.cluster, neighbors, 3)
    np.testing.assert_allclose(votes, [[0.5, 0.0, 0.5], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    found = verdicts(labels, Evidence(votes, votes))
    assert [verdict.confused_with for verdict in found] == [2, 0, None]
    assert "50% of its neighbors are in group 2" in found[0].reason


def test_the_grade_counts_the_nearest_and_the_reason_all_neighbors() -> None:
    found = judged([[0.5, 0.5], [0.0, 1.0]], near=np.eye(2))[0]
    assert (found.grade, found.groups, found.confusion) == (Grade.GOOD, 1.0, 0.5)


def test_only_the_neighbors_that_reliability_counts_are_compared(run: Result) -> None:
    before = read_content(run).verdicts
    np.save(run / NEIGHBORS, np.hstack([run.neighbors, np.zeros((300, 50), dtype=np.int64)]))
    assert read_content(run.reread()).verdicts == before


def blobs(count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    random = np.random.default_rng(0)
    kinds = np.arange(count) % 4
    return (4 * np.eye(4, 32)[kinds] + 0.5 * random.normal(size=(count, 32))).astype(np.float32), kinds


@pytest.mark.parametrize("count", [40, 200, 900])
def test_the_map_keeps_what_is_alike_together(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "LANDMARKS", 300)
    features, kinds = blobs(count)
    points = embed(features)
    assert points.shape == (count, 2)
    assert points.min() >= 0
    assert points.max() <= 1
    distance = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    np.fill_diagonal(distance, np.inf)
    assert (kinds[distance.argmin(axis=1)] == kinds).mean() > 0.98
    np.testing.assert_array_equal(points, embed(features))


def test_the_map_can_show_equal_and_empty_features() -> None:
    assert np.isfinite(embed(np.zeros((50, 8), dtype=np.float32))).all()
    assert np.isfinite(embed(np.ones((1, 8), dtype=np.float32))).all()
    assert np.isfinite(embed(np.ones((40, 1), dtype=np.float32))).all()
    two_kinds = np.eye(2, 8, dtype=np.float32)[np.arange(60) % 2]  # thirty exact copies of two images
    assert np.isfinite(embed(two_kinds)).all()


def test_the_histogram_counts_every_image_once() -> None:
    trust = np.array([0.0, 0.5, 0.95, 0.96, 1.0, 1.0], dtype=np.float32)
    bars = histogram(trust, trust > 0.95)
    assert sum(int(bar.title.split()[3]) for bar in bars) == 6
    assert sum(int(bar.title.split()[3]) for bar in bars if bar.reliable) == 3
    assert max(bar.x + bar.width for bar in bars) <= 100
    assert min(bar.y for bar in bars) == 0  # the highest column fills the height


def test_small_pictures_stay_within_their_budget() -> None:
    assert tile_side(100, 160) == 96
    assert tile_side(100, 28) == 28
    assert tile_side(1_000_000, 160) ** 2 * MOST_TILES <= SHEET_PIXELS
    assert tile_side(20_000, 160) == 40


def test_every_picture_lies_where_the_index_says(tmp_path: Path) -> None:
    colors = np.random.default_rng(0).integers(0, 256, size=(1100, 3, 1, 1), dtype=np.uint8)
    flat = np.broadcast_to(colors, (1100, 3, 32, 32))
    rows = np.array([3, 1050])
    write_pictures(
        tmp_path / "pictures",
        lambda here: flat[here],
        images=1100,
        side=32,
        on_cards=rows,
        large=rows[:0],
        attention=[],
    )
    sheets = read_sheets(tmp_path / "pictures")
    assert sheets is not None
    assert (sheets.count, sheets.tile, len(sheets.rows)) == (2, 32, 1100)
    for row in (0, 31, 32, 1023, 1024, 1099):
        number, place = divmod(row, sheets.columns**2)
        sheet = np.asarray(Image.open(tmp_path / "pictures" / f"sheet-{number}.jpg"), dtype=int)
        top, left = place // sheets.columns * 32 + 16, place % sheets.columns * 32 + 16
        assert abs(sheet[top, left] - colors[row, :, 0, 0]).max() < 12
    for row in rows:
        picture = np.asarray(Image.open(tmp_path / "pictures" / f"image-{row}.jpg"), dtype=int)
        assert abs(picture[16, 16] - colors[row, :, 0, 0]).max() < 12
    assert {path.name for path in tmp_path.iterdir()} == {"pictures"}


def test_pictures_that_are_shown_large_have_more_pixels(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, size=(3, 3, 300, 300), dtype=np.uint8)
    rows = np.arange(3)
    heat = [Attention(1, np.eye(5, dtype=np.float32))]
    folder = tmp_path / "p"
    write_pictures(folder, lambda here: noise[here], images=3, side=300, on_cards=rows, large=rows[1:], attention=heat)
    sides = {name: Image.open(folder / f"{name}.jpg").width for name in ("image-0", "image-1", "attention-1")}
    assert sides == {"image-0": 128, "image-1": 272, "attention-1": 272}


def test_large_pictures_come_from_the_originals(tmp_path: Path) -> None:
    stored = np.zeros((3, 3, 160, 160), dtype=np.uint8)
    rows = np.arange(3)

    def sharp(here: NDArray[np.int64], side: int) -> list[NDArray[np.uint8]]:
        return [np.full((3, side, side), 200, dtype=np.uint8) for _ in here]

    folder = tmp_path / "p"
    write_pictures(
        folder,
        lambda here: stored[here],
        images=3,
        side=160,
        on_cards=rows,
        large=rows[2:],
        attention=[],
        sharp=sharp,
    )
    assert Image.open(folder / "image-0.jpg").getpixel((9, 9)) == (0, 0, 0)
    assert Image.open(folder / "image-2.jpg").size == (272, 272)
    assert Image.open(folder / "image-2.jpg").getpixel((9, 9)) == (200, 200, 200)


def test_gray_images_have_gray_pictures(tmp_path: Path) -> None:
    gray = np.full((3, 1, 28, 28), 77, dtype=np.uint8)
    rows = np.arange(3)
    write_pictures(
        tmp_path / "p", lambda here: gray[here], images=3, side=28, on_cards=rows, large=rows[:0], attention=[]
    )
    assert abs(np.asarray(Image.open(tmp_path / "p" / "image-2.jpg"), dtype=int) - 77).max() < 4


def test_attention_is_the_cosine_with_the_center_scaled_to_one() -> None:
    maps = torch.zeros(1, 2, 1, 3)
    maps[0, :, 0] = torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 5.0]])  # directions at three places
    found = attention(maps, torch.tensor([[2.0, 0.0]]))
    np.testing.assert_allclose(found[0, 0], [1.0, 2**-0.5, 0.0], atol=1e-6)
    assert (attention(torch.ones(1, 2, 2, 2), torch.ones(1, 2)) == 0).all()  # nothing stands out


def test_the_overlay_is_warm_where_attention_is_high() -> None:
    picture = Image.new("RGB", (64, 64), (128, 128, 128))
    seen = np.asarray(overlay(picture, np.array([[0.0, 1.0]], dtype=np.float32)), dtype=int)
    assert seen[32, 60].sum() > seen[32, 4].sum() + 200
    assert seen[32, 60, 0] > seen[32, 60, 2]


class Names(HTMLParser):
    """All tags and addresses of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


def test_the_page_holds_all_it_needs_and_escapes_every_name(small: Result) -> None:
    text = write_report(small).read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;.jpg" in text
    found = Names()
    found.feed(text)
    assert found.handlers == []
    assert all(address.startswith(("data:", "#")) for address in found.addresses)
    assert found.tags.count("article") == 6
    assert not re.search(r"(?i)(https?:)?//[a-z]", re.sub(r"base64,[A-Za-z0-9+/=]+|>[A-Za-z0-9+/=]{2000,}<", "", text))
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert data["path"] == small.labels.path
    assert HARMFUL in data["path"]


def test_the_page_does_without_pictures_and_map(run: Result) -> None:
    shutil.rmtree(run / PICTURES)
    (run / MAP).unlink()
    (run / HEAD_LABELS).unlink()
    text = write_report(run).read_text(encoding="utf-8")
    assert 'class="missing"' in text
    assert 'id="map-canvas"' not in text


def test_a_page_of_many_images_lists_an_even_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_pictured_run(tmp_path / "run", images=2000, clusters=4)
    monkeypatch.setattr(page, "MOST_LISTED", 500)
    text = write_report(run).read_text(encoding="utf-8")
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    listed = data["path"]
    assert 500 <= len(listed) <= 500 + 4 * 32
    assert [run.labels.path[row] for row in data["rows"]] == listed
    assert f"This page lists {len(listed)} of the 2,000 images" in text
    shown = {int(row) for row in re.findall(r'data-row="(\d+)"', text)}
    assert len(shown) > 50
    assert shown <= set(data["rows"])  # the details of what is on a card can be shown


def test_commands_quote_the_name_of_a_run_folder_with_a_space(tmp_path: Path) -> None:
    run = make_pictured_run(tmp_path / "my photos.spice", images=60, clusters=3)
    text = html.unescape(write_report(run).read_text(encoding="utf-8"))
    assert f"<code>spice check {quoted('my photos.spice')}</code>" in text
    assert "<code>spice check my photos" not in text


def test_a_run_without_labels_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run folder"):
        write_report(open_result(tmp_path))
    RunFolder.open_or_create(tmp_path, source=None)
    with pytest.raises(UserError, match="has no groups yet; finish it with: spice resume"):
        write_report(open_result(tmp_path))


def test_writing_the_page_needs_no_torch(small: Result) -> None:
    code = (
        "import sys; from pathlib import Path; from spice.report import write_report\n"
        "from spice.runs import open_result; write_report(open_result(Path(sys.argv[1])))\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(small.run)], check=False).returncode == 0


def test_made_pictures_weigh_as_much_as_photographs() -> None:
    """Or the limit on the page's size would be tested on something lighter than what users have."""
    from io import BytesIO

    sizes = []
    for pixels in natural(np.random.default_rng(1), 20):
        held = BytesIO()
        Image.fromarray(pixels.transpose(1, 2, 0)).save(held, "JPEG", quality=70)
        sizes.append(len(held.getvalue()))
    assert np.mean(sizes) > 1200
