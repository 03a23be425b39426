"""The page of a run from images to page, in a real browser."""

import shutil
from pathlib import Path

import pytest
from browser import Page
from pictured_runs import HARMFUL
from small_settings import with_few_heads

from spice.pipeline import cluster
from spice.presets import standard


@pytest.mark.slow
def test_a_run_ends_with_a_page_that_shows_it(shapes: Path, tmp_path: Path, browser: Page) -> None:
    drawings = Path(shutil.copytree(shapes, tmp_path / "drawings"))
    harmful = drawings / HARMFUL  # its slash makes it a file in a folder
    harmful.parent.mkdir()
    (drawings / "disc" / "0.png").rename(harmful)
    shutil.copy(drawings / "ring" / "0.png", drawings / "copy.png")
    (drawings / "broken.png").write_bytes((drawings / "ring" / "1.png").read_bytes()[:200])
    cluster(drawings, with_few_heads(standard(clusters=4, size=64), heads=4, epochs=5), tmp_path / "run")

    browser.open(tmp_path / "run" / "report.html")
    assert browser.errors == []
    assert browser.run("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    assert browser.run("document.querySelectorAll('.card').length") == 4
    assert browser.run("document.querySelectorAll('.attention').length") == 4 * 3
    assert browser.run("document.getElementById('cluster-0').textContent").count("Head agreement") == 1
    assert "margin" not in browser.run("document.getElementById('cluster-0').textContent")
    assert "other heads" in browser.run("document.querySelector('#verdicts .reason').textContent")
    assert browser.run("document.getElementById('match-count').textContent") == "97 images."
    problems = browser.run("document.getElementById('problems').textContent")
    assert "broken.png" in problems
    assert "copy.png" in problems
    names = browser.run("[...document.querySelectorAll('#gallery button')].map(button => button.title)")
    browser.run("document.getElementById('search').focus()")
    browser.type("alert")
    browser.wait("document.querySelectorAll('#gallery li').length === 1")
    assert browser.run("document.querySelector('#gallery .name').textContent") == HARMFUL
    assert len(names) == 96
