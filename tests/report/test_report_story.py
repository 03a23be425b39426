"""How a run went, on its page: curves, checks, warnings, scores, and colors that all eyes tell apart."""

import json
import re
from itertools import combinations, pairwise

import numpy as np
import pytest
from made_run import heads_result
from numpy.typing import NDArray
from pictured_runs import JOINT, add_all_stages, truth_of

from spice.errors import UserError
from spice.evaluate import evaluate_run
from spice.report import write_report
from spice.report.charts import HEIGHT, LEFT, RIGHT, WIDTH, Series, curve, head_chart, line_chart
from spice.report.colors import colors
from spice.report.curves import check_rows, point_at
from spice.runs import Result
from spice.runs.artifacts import SCORES, WORDS
from spice.runs.editor import Editor
from spice.runs.edits import Merge, Name
from spice.runs.records import JointResult
from spice.runs.scores import AccuracyCurve

Floats = NDArray[np.float64]


def page_of(run: Result) -> str:
    return write_report(run.reread()).read_text(encoding="utf-8")


def test_the_selected_head_is_drawn_last_and_marked_where_it_was_selected() -> None:
    losses = [[1.9, 2.0], [1.5, 1.8]]
    chart = head_chart(heads_result(losses, head=0), losses, y_title="loss")
    assert [(line.name, line.style) for line in chart.lines] == [("head 1", "plain"), ("head 0", "selected")]
    (mark,) = chart.marks
    assert chart.lines[-1].points.endswith(f"{mark.x},{mark.y}")
    assert [tick.text for tick in chart.x_ticks] == ["5", "10"]
    single = head_chart(
        heads_result([[2.0]], head=0), [[2.0]], y_title="loss"
    )  # one snapshot, one head: no division by zero
    assert LEFT <= single.marks[0].x <= WIDTH - RIGHT


def test_a_long_curve_is_drawn_as_the_means_of_its_parts() -> None:
    chart = curve([1.0, 3.0] * 1000, x_title="step", y_title="loss")
    points = [point.split(",") for point in chart.lines[0].points.split()]
    assert len(points) == 200
    assert len({y for _, y in points}) == 1
    assert len(curve([0.5], x_title="step", y_title="loss").lines[0].points.split()) == 1


@pytest.mark.parametrize(("count", "ticks"), [(1, "1"), (2, "1 2"), (5, "1 2 3 4 5"), (12, "2 4 6 8 10 12")])
def test_epochs_and_steps_are_whole_numbers(count: int, ticks: str) -> None:
    chart = curve([0.5] * count, x_title="epoch", y_title="loss")
    assert [tick.text for tick in chart.x_ticks] == ticks.split()


@pytest.mark.parametrize("values", [[0.0, 1.0], [0.9531, 0.9537], [-4.0, -0.1], [1e-5, 3e4], [2.0, 2.0], [0.0, 0.0]])
def test_axes_are_marked_at_a_few_round_numbers_inside_the_chart(values: list[float]) -> None:
    chart = line_chart([Series("", range(len(values)), values)], x_title="x", y_title="y")
    assert 2 <= len(chart.y_ticks) <= 6
    assert all(0 <= tick.place <= HEIGHT for tick in chart.y_ticks)
    assert len({tick.text for tick in chart.y_ticks}) == len(chart.y_ticks)
    places = [tick.place for tick in chart.y_ticks]
    assert places == sorted(places, reverse=True)


def test_a_chart_of_shares_says_percent_over_the_whole_axis() -> None:
    chart = line_chart([Series("", [0.6, 1.0], [0.953, 0.999])], x_title="x", y_title="y", percent=True)
    assert [tick.text for tick in chart.x_ticks] == ["0%", "20%", "40%", "60%", "80%", "100%"]
    assert all(re.fullmatch(r"\d+(\.\d)?%", tick.text) for tick in chart.y_ticks)


def page_of_all_stages(run: Result, joint: JointResult = JOINT) -> str:
    return page_of(add_all_stages(run.run, joint))


def test_every_trained_stage_has_its_curve(run: Result) -> None:
    titles = re.findall(r"<figcaption><strong>([^<]*)</strong>", page_of_all_stages(run).split('id="scores"')[0])
    assert titles == [
        "Feature model: alignment", "Feature model: uniformity", "Loss of every head", "Joint training: loss",
        "Joint training: confident images", "Time per step",
    ]  # fmt: skip


def test_joint_training_is_shown_before_and_after(run: Result) -> None:
    text = page_of_all_stages(run)
    assert 'class="grade good">used' in text
    cells = re.findall(r"<td>([^<]*)</td><td>([^<]*)</td><td><span class=\"(\w+)\">", text)
    assert cells == [
        ("88.4%", "96.6%", "better"), ("88.4%", "91.0%", "better"), ("90.0%", "90.0%", "same"),
        ("1.5447", "1.6000", "worse"), ("1", "0", "better"),
    ]  # fmt: skip


def test_joint_training_that_learned_nothing_has_no_checks_to_show(run: Result) -> None:
    reason = "no image is reliable, so there is nothing to learn from"
    nothing = JOINT.model_copy(
        update={"loss": [], "taught": [], "before": None, "after": None, "failed_checks": [reason], "used": False}
    )
    assert check_rows(nothing) == []
    text = page_of_all_stages(run, nothing)
    assert "Joint training: loss" not in text
    assert reason in text


def test_joint_training_that_is_not_used_says_why(run: Result) -> None:
    failed = {"failed_checks": ["<b>half</b> agree", "confidence fell"], "used": False}
    text = page_of_all_stages(run, JOINT.model_copy(update=failed))
    assert 'class="grade weak">rejected' in text
    assert "those of stage 2: &lt;b&gt;half&lt;/b&gt; agree; confidence fell." in text


def test_joint_training_that_is_used_in_spite_of_its_checks_says_so(run: Result) -> None:
    text = page_of_all_stages(run, JOINT.model_copy(update={"failed_checks": ["confidence fell"]}))
    assert 'class="grade good">used' in text
    assert "Checks were switched off; these failed: confidence fell." in text


def test_labels_that_the_user_gave_are_mentioned(run: Result) -> None:
    assert "No labels were used." in page_of(run)
    text = page_of_all_stages(run, JOINT.model_copy(update={"given": 3}))
    assert "Joint training used 3 labels that you gave; no other labels were used, except in the section" in text


def test_a_warning_is_one_sentence(small: Result) -> None:
    assert '<p class="warning">Look at &lt;script&gt;' in page_of(small)


def test_the_page_marks_what_uses_labels(run: Result) -> None:
    assert "uses labels" not in page_of(run)
    (run / SCORES).write_text(evaluate_run(run, truth_of(run)).model_dump_json())
    text = page_of(run)
    assert 'class="flag">uses labels' in text
    assert "&lt;b&gt;cat&lt;/b&gt;" in text
    assert "1 image without a true label is left out." in text
    titles = re.findall(r"<figcaption><strong>([^<]*)</strong>", text.split('id="scores"')[1])
    assert titles == ["Accuracy against share kept", "Accuracy of every head"]
    before = text.split('id="scores"')[0]
    assert "ccuracy" not in before  # nothing of it outside its section


def test_without_a_reliable_image_there_is_no_score_of_them(run: Result) -> None:
    scores = json.loads(evaluate_run(run, truth_of(run)).model_dump_json())
    scores["reliable"] = {"images": 0}
    (run / SCORES).write_text(json.dumps(scores))
    text = page_of(run)
    assert "\N{EN DASH}<small> accuracy</small>" in text
    assert 'r="5.5"><title>the' not in text  # nor a point on the curve


def test_scores_of_another_version_are_refused_in_words(run: Result) -> None:
    (run / SCORES).write_text('{"images": 3}')
    with pytest.raises(UserError, match=r"scores.json is damaged, or from another version.*delete it"):
        page_of(run)


def test_the_line_is_drawn_at_the_point_nearest_to_the_reliable_share() -> None:
    assert point_at(AccuracyCurve(share=[0.2, 0.5, 1.0], acc=[1.0, 0.9, 0.8]), 0.6) == (0.5, 0.9)


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
def test_all_eyes_can_tell_a_dozen_colors_apart(eyes: str) -> None:
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


def test_the_page_has_the_names_that_people_gave_and_guesses_for_the_rest(run: Result) -> None:
    assert "This page shows your names" not in page_of(run)
    lemon, gas_pump = 951, 571
    best = np.where(run.labels.cluster[:, None] == 2, lemon, gas_pump).repeat(8, axis=1).astype(np.uint16)
    share = np.zeros(best.shape, np.float16)
    share[np.isin(run.labels.cluster, (2, 3)), 0] = 0.9
    np.savez(run / WORDS, best=best, share=share)
    editor = Editor(run.run)
    editor.do(Name(group=3, name="<b>pumps"))
    editor.do(Merge(groups=[3, 4]))
    page = page_of(run)
    assert "<b>pumps" not in page  # a name is text
    assert "lemon?" in page
    assert "gas pump?" not in page  # it has a name
    assert re.search(r"&lt;b&gt;pumps.*?<small>group 3</small>", page)
    assert re.search(r"&lt;b&gt;pumps.*?<small>group 4</small>", page)  # merged into it
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])  # type: ignore[index]
    assert data["names"][:5] == ["Group 0", "Group 1", "Group 2", "<b>pumps", "<b>pumps"]
    assert "This page shows your names" in page
