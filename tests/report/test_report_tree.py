"""The section of groups within groups: the last merges of the tree, with pictures at its ends."""

from pathlib import Path

import numpy as np
import pytest
from made_run import add_steps
from pictured_runs import make_pictured_run

from spice.report import tree
from spice.report.content import read_content
from spice.report.page import render
from spice.report.tree import Node, tree_section
from spice.runs import Result
from spice.runs.artifacts import TREE
from spice.runs.records import TreeResult

# Leaves 0 to 4; 5 = 0 + 1, 6 = 2 + 3, 7 = 5 + 4, 8 = 7 + 6.
MERGES = [[0, 1], [2, 3], [5, 4], [7, 6]]


def run_with_tree(folder: Path) -> Result:
    """40 images, 8 in each of five leaves."""
    make_pictured_run(folder, images=40, clusters=4)
    result = add_steps(folder, {"tree": TreeResult(leaves=5, information=1.0)})
    leaf = (np.arange(40) % 5).astype(np.int32)
    np.savez(result / TREE, leaf=leaf, merges=np.array(MERGES, dtype=np.int32), lost=np.arange(4.0))
    return result


def shape(node: Node) -> object:
    return [shape(part) for part in node.parts] or node.images


def test_the_last_merges_are_shown_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = read_content(run_with_tree(tmp_path / "run"))
    assert [shape(part) for part in whole(tree_section(content)).parts] == [[[8, 8], 8], [8, 8]]
    monkeypatch.setattr(tree, "FEWEST_ENDS", 2)
    monkeypatch.setattr(tree, "MOST_ENDS", 3)
    root = whole(tree_section(content))
    assert (root.images, shape(root)) == (40, [[16, 8], 16])
    assert root.pictures == []
    assert len(root.parts[1].pictures) == tree.PICTURES
    assert "Groups within groups" in render(content)


def whole(root: Node | None) -> Node:
    assert root is not None
    return root


def test_a_run_without_a_tree_has_no_such_section(tmp_path: Path) -> None:
    content = read_content(make_pictured_run(tmp_path / "run", images=12, clusters=2))
    assert tree_section(content) is None
    assert 'id="tree"' not in render(content)
