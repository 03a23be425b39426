"""How a run went, on its page: curves, checks, warnings, scores, and colors that all eyes tell apart."""

import json
import re
import shutil
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from made_runs import tell_all, truth_of
from numpy.typing import NDArray

from spice.errors import UserError
from spice.evaluate import evaluate_run
from spice.report import write_report
from spice.report.charts import HEIGHT, LEFT, RIGHT, WIDTH, Series, curve, head_chart, line_chart
from spice.report.colors import colors
from spice.report.course import point_at, signs
from spice.report.notices import notices
from spice.runs.account import Warned
from spice.runs.outcomes import JointOutcome, Kept

Floats = NDArray[np.float64]


@pytest.fixture
def run(small: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small, tmp_path / "run"))


def page_of(run: Path) -> str:
    return write_report(run).read_text(encoding="utf-8")


def test_the_selected_head_is_drawn_last_and_marked_where_it_was_taken() -> None:
    chart = head_chart([5, 10], [[1.9, 2.0], [1.5, 1.8]], head=0, epoch=10, y_title="loss")
    assert [(line.name, line.look) for line in chart.lines] == [("head 1", "plain"), ("head 0", "selected")]
    (mark,) = chart.marks
    assert chart.lines[-1].points.endswith(f"{mark.x},{mark.y}")
    assert [tick.text for tick in chart.across] == ["5", "10"]
    single = head_chart([5], [[2.0]], head=0, epoch=5, y_title="loss")  # one look, one head: no division by zero
    assert LEFT <= single.marks[0].x <= WIDTH - RIGHT


def test_a_long_curve_is_told_by_the_means_of_its_stretches() -> None:
    chart = curve([1.0, 3.0] * 1000, x_title="step", y_title="loss")
    points = [point.split(",") for point in chart.lines[0].points.split()]
    assert len(points) == 200
    assert len({y for _, y in points}) == 1
    assert len(curve([0.5], x_title="step", y_title="loss").lines[0].points.split()) == 1


@pytest.mark.parametrize("values", [[0.0, 1.0], [0.9531, 0.9537], [-4.0, -0.1], [1e-5, 3e4], [2.0, 2.0], [0.0, 0.0]])
def test_axes_are_marked_at_a_few_round_numbers_inside_the_chart(values: list[float]) -> None:
    chart = line_chart([Series("", range(len(values)), values)], x_title="x", y_title="y")
    assert 2 <= len(chart.up) <= 6
    assert all(0 <= tick.place <= HEIGHT for tick in chart.up)
    assert len({tick.text for tick in chart.up}) == len(chart.up)
    places = [tick.place for tick in chart.up]
    assert places == sorted(places, reverse=True)


def test_a_chart_of_shares_says_percent_over_the_whole_axis() -> None:
    chart = line_chart([Series("", [0.6, 1.0], [0.953, 0.999])], x_title="x", y_title="y", share=True)
    assert [tick.text for tick in chart.across] == ["0%", "20%", "40%", "60%", "80%", "100%"]
    assert all(re.fullmatch(r"\d+(\.\d)?%", tick.text) for tick in chart.up)


def tell(run: Path, **changes: object) -> str:
    """The page of a run with all stages, of which joint training went otherwise."""
    tell_all(run)
    story = run / "refined" / "joint.json"
    story.write_text(json.dumps(json.loads(story.read_text()) | changes))
    return page_of(run)


def test_every_trained_stage_has_its_curve(run: Path) -> None:
    titles = re.findall(r"<figcaption><strong>([^<]*)</strong>", tell(run).split('id="scores"')[0])
    assert titles == [
        "Feature model: alignment", "Feature model: uniformity", "Loss of every head", "Joint training: loss",
        "Joint training: sure images", "Time per step",
    ]  # fmt: skip


def test_joint_training_is_shown_before_and_after(run: Path) -> None:
    text = tell(run)
    assert 'class="grade good">used' in text
    cells = re.findall(r"<td>([^<]*)</td><td>([^<]*)</td><td><span class=\"(\w+)\">", text)
    assert cells == [
        ("88.4%", "96.6%", "better"), ("88.4%", "91.0%", "better"), ("90.0%", "90.0%", "same"),
        ("1.5447", "1.6000", "worse"), ("1", "0", "better"),
    ]  # fmt: skip


def test_joint_training_of_an_earlier_version_is_shown_with_the_checks_it_had() -> None:
    seen = {"agreement": 0.9, "confident": 0.9, "loss": 1.5, "empty": 0}
    joint = JointOutcome.model_validate({"loss": [], "taught": [], "before": seen, "after": seen, "doubts": []})
    assert len(signs(joint)) == 4


def test_joint_training_that_is_not_used_says_why(run: Path) -> None:
    text = tell(run, doubts=["<b>half</b> agree", "confidence fell"])
    assert 'class="grade weak">not used' in text
    assert "because &lt;b&gt;half&lt;/b&gt; agree; confidence fell." in text


def test_a_warning_has_its_name_its_words_and_what_to_try() -> None:
    (found,) = notices([Warned(name="EmptyClusterWarning", text="1 of 4 have no image (3): try fewer, or more heads")])
    assert found == ("Empty cluster", "1 of 4 have no image (3).", "Try fewer, or more heads.")
    (plain,) = notices([Warned(name="DoubtfulRefinementWarning", text="it is not used: loss rose; retry")])
    assert plain == ("Doubtful refinement", "It is not used: loss rose; retry.", "")


def test_the_page_names_its_warnings(small: Path) -> None:
    assert "<strong>Giant cluster</strong> Look at &lt;script&gt;" in page_of(small)


def test_the_page_marks_what_uses_labels(run: Path) -> None:
    assert "uses labels" not in page_of(run)
    (run / "scores.json").write_text(evaluate_run(run, truth_of(run)).model_dump_json())
    text = page_of(run)
    assert 'class="flag">uses labels' in text
    assert "&lt;b&gt;cat&lt;/b&gt;" in text
    assert "1 image without a true label is left out." in text
    titles = re.findall(r"<figcaption><strong>([^<]*)</strong>", text.split('id="scores"')[1])
    assert titles == ["Accuracy against share kept", "Accuracy of every head"]
    before = text.split('id="scores"')[0]
    assert "ccuracy" not in before  # nothing of it outside its section


def test_without_a_reliable_image_there_is_no_score_of_them(run: Path) -> None:
    scores = json.loads(evaluate_run(run, truth_of(run)).model_dump_json())
    scores["reliable"] = {"images": 0}
    (run / "scores.json").write_text(json.dumps(scores))
    text = page_of(run)
    assert "\N{EN DASH}<small> accuracy</small>" in text
    assert 'r="5.5"><title>the' not in text  # nor a point on the curve


def test_scores_of_another_version_are_refused_in_words(run: Path) -> None:
    (run / "scores.json").write_text('{"images": 3}')
    with pytest.raises(UserError, match=r"scores.json is damaged or of another version.*delete it"):
        write_report(run)


def test_the_line_is_drawn_at_the_point_nearest_to_the_reliable_share() -> None:
    assert point_at(Kept(share=[0.2, 0.5, 1.0], acc=[1.0, 0.9, 0.8]), 0.6) == (0.5, 0.9)


# What those see who lack red, green or blue cones (Machado, Oliveira and Fernandes 2009), in linear light.
SEEN = {
    "all": np.eye(3),
    "no red": np.array([[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]]),
    "no green": np.array([[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]]),
    "no blue": np.array([[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]]),
}
TO_CONES = np.array([[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]])
TO_LAB = np.array([[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]])


def linear(color: str) -> Floats:
    encoded = np.array([int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.asarray(np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4))


def oklab(color: str, seen: Floats) -> Floats:
    return np.asarray(TO_LAB @ np.cbrt(TO_CONES @ (seen @ linear(color)).clip(0, 1)))


@pytest.mark.parametrize("eyes", SEEN)
def test_a_dozen_colors_are_told_apart_by_all_eyes(eyes: str) -> None:
    for ground in zip(*colors(12), strict=True):
        apart = {
            pair: np.linalg.norm(oklab(pair[0], SEEN[eyes]) - oklab(pair[1], SEEN[eyes]))
            for pair in combinations(ground, 2)
        }
        assert min(apart.values()) > 0.055, min(apart, key=lambda pair: apart[pair])


@pytest.mark.parametrize("clusters", [1, 2, 12, 13, 15, 100, 200])
def test_every_cluster_has_a_color_of_its_own(clusters: int) -> None:
    found = colors(clusters)
    assert len(found) == clusters
    for ground, background in zip(zip(*found, strict=True), ("#fbfaf8", "#141311"), strict=True):
        assert len(set(ground)) == clusters
        behind = linear(background) @ [0.2126, 0.7152, 0.0722]
        light = np.array([linear(color) @ [0.2126, 0.7152, 0.0722] for color in ground])
        assert ((np.maximum(light, behind) + 0.05) / (np.minimum(light, behind) + 0.05)).min() > 1.8
    seen = [oklab(color.light, SEEN["all"]) for color in found]
    apart = [np.linalg.norm(one - other) for one, other in pairwise(seen)]
    assert min(apart, default=1.0) > 0.1  # clusters that follow each other do not look alike
