"""The section on how many groups there are: only where the number was found, with examples and splits."""

from pathlib import Path

import numpy as np
from made_run import add_steps
from pictured_runs import make_pictured_run

from spice.report.content import read_content
from spice.report.howmany import how_many_section, origin
from spice.report.page import render
from spice.runs import Result
from spice.runs.artifacts import CANDIDATES
from spice.runs.records import CandidateCount, HowManyResult


def found_run(folder: Path, *, agrees: bool = True) -> Result:
    """A run of four groups, for which two and four were plausible."""
    make_pictured_run(folder, images=40, clusters=4)
    candidates = [
        CandidateCount(clusters=2, score=0.3, prominence=0.1, spread=0.01),
        CandidateCount(clusters=4, score=0.5, prominence=0.2, spread=0.01),
    ]
    howmany = HowManyResult(
        clusters=4, candidates=candidates, counts=[2, 3, 4, 5], score=[0.3, 0.2, 0.5, 0.1], spread=[0.01] * 4,
        null=0.05, drawn=32, finest_peak=9, communities=9 if agrees else 20, fits_labels=False,
    )  # fmt: skip
    fine = np.arange(40) % 4
    result = add_steps(folder, {"howmany": howmany})
    np.save(result / CANDIDATES, np.stack([fine // 2, fine]).astype(np.int32))
    return result


def test_every_plausible_number_has_an_example_of_each_group_and_the_one_in_use_is_marked(tmp_path: Path) -> None:
    section = how_many_section(read_content(found_run(tmp_path / "run")))
    assert section is not None
    assert [(level.candidate.clusters, level.used, len(level.groups)) for level in section.levels] == [
        (2, False, 2),
        (4, True, 4),
    ]
    assert all(group.picture for level in section.levels for group in level.groups)
    assert [group.images for group in section.levels[0].groups] == sorted(
        (group.images for group in section.levels[0].groups), reverse=True
    )


def test_the_page_says_which_group_splits_into_which_and_whether_the_second_opinion_agrees(tmp_path: Path) -> None:
    content = read_content(found_run(tmp_path / "run", agrees=False))
    section = how_many_section(content)
    assert section is not None
    (change,) = section.changes
    assert (change.before, change.after) == (2, 4)
    assert [len(split.parts) for split in change.splits] == [2, 2]
    page = render(content)
    assert "From 2 to 4 groups" in page
    assert "Two methods disagree" in page
    assert "the curve suggests 9 groups, the neighbor graph 20" in page


def test_a_run_with_a_given_number_has_no_such_section(tmp_path: Path) -> None:
    content = read_content(make_pictured_run(tmp_path / "run", images=12, clusters=2))
    assert how_many_section(content) is None
    assert 'id="howmany"' not in render(content)


def test_every_plausible_number_names_its_evidence(tmp_path: Path) -> None:
    found = read_content(found_run(tmp_path / "run")).result.howmany
    assert found is not None
    found = found.model_copy(update={"communities": 4, "coarse_communities": 3})
    flat = CandidateCount(clusters=3, score=0.2, prominence=0.0, spread=0.0)
    assert origin(found, found.candidates[1]) == "peak of the curve, neighbor graph"
    assert origin(found, flat) == "neighbor graph, coarse"
    assert origin(found, flat.model_copy(update={"clusters": 5})) == "your labels"
