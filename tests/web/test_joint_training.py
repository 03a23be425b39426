"""Joint training from the page: watched, canceled, killed in the middle, and seen before it is used."""

from pathlib import Path

import pytest
from browser import Page
from serving import Command, opened
from small_settings import tiny_stages

from spice.pipeline import cluster
from spice.runs import open_result, read_manifest
from spice.settings import JointSettings

STEPS = 600  # longer than a second, after which the speed is known, on any machine
SHOWN = "document.getElementById('joint')?.textContent"
STARTED = f"document.querySelector('#joint progress')?.value > 0.05 && {SHOWN}.includes('left in this step')"
FREE = "[...document.querySelectorAll('#joint button')].some(button => button.textContent === 'Train')"
DONE = "!!document.querySelector('#joint .proposal')"


@pytest.fixture
def trained(shapes: Path, tmp_path: Path) -> Path:
    """A run with joint training, which a moved image makes worth repeating."""
    joint = JointSettings(steps=STEPS, labeled=8, unlabeled=8, ema=None, learning_rate=0.01, checks=False)
    settings = tiny_stages(feature_epochs=1, heads=2, epochs=2, least_steps=4, threshold=0.2, joint=joint)
    cluster(shapes, settings, tmp_path / "run")
    return tmp_path / "run"


def begin(page: Page, explorer: Command) -> None:
    """Open the page, and start training; until its speed is known."""
    page.visit("about:blank")
    page.visit(f"{explorer.address}#learn")
    page.wait(FREE)
    page.run("document.querySelector('.joint').open = true")
    page.click("#joint button")
    page.wait(STARTED)


@pytest.mark.slow
def test_joint_training_is_canceled_killed_resumed_and_seen_before_it_is_used(browser: Page, trained: Path) -> None:
    before = read_manifest(trained).results
    with opened(trained) as explorer:
        explorer.enter()
        group = int(open_result(trained).groups.group[0])
        assert explorer.edit({"kind": "move", "rows": [0], "group": (group + 1) % 4}).status == 200
        table = explorer.request("/labels.csv").body
    with opened(trained) as explorer:
        begin(browser, explorer)
        browser.click("#joint button")  # Cancel
        browser.wait(FREE)
        assert read_manifest(trained).results == before
        assert read_manifest(trained).pending is None
    with opened(trained) as explorer:
        begin(browser, explorer)
        explorer.process.kill()
    assert read_manifest(trained).results == before
    with opened(trained) as explorer:
        begin(browser, explorer)
        browser.wait(DONE, seconds=300)
        made = read_manifest(trained)
        assert (len(made.results), made.current) == (len(before) + 1, next(iter(before)))
        assert explorer_table(browser) == table.decode()
        assert "passed" in browser.run(SHOWN) or "Checks were switched off" in browser.run(SHOWN)
        moved = browser.run("document.querySelectorAll('#joint .result').length")
        assert moved > 0
        browser.click("#joint .main")
        browser.wait("document.getElementById('messages').textContent.startsWith('Accepted')")
        assert read_manifest(trained).current not in before
        assert open_result(trained).groups.group[0] == (group + 1) % 4  # what a person decided holds
        assert browser.errors == []


def explorer_table(page: Page) -> str:
    table: str = page.run("fetch('/labels.csv').then(answer => answer.text())")
    return table
