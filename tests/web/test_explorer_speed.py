"""Twenty thousand images in the explorer. `benchmarks/explorer.py` measures the same, and more of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Page
from explored_runs import make_large_run
from serving import Explorer, served

FIRST_SCREEN = "!!document.querySelector('.item') && document.querySelectorAll('.thumb:not(.ready)').length === 0"
# Jumps to far places; how long, in milliseconds, until no tile on the screen is blank.
JUMPS = """(async () => {
  const grid = document.querySelector('.grid'), waits = [];
  const blank = () => [...document.querySelectorAll('.item')].some((item) => {
    const box = item.getBoundingClientRect();
    return box.bottom > 0 && box.top < innerHeight && !item.querySelector('.thumb.ready');
  });
  for (let jump = 1; jump < 12; jump++) {
    grid.scrollTop = ((jump * 0.618) % 1) * grid.scrollHeight;
    const start = performance.now();
    do await new Promise(requestAnimationFrame); while (blank());
    waits.push(performance.now() - start);
  }
  return waits.sort((a, b) => a - b);
})()"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explorer]:
    folder: Path = tmp_path_factory.mktemp("large") / "run"
    with served(make_large_run(folder, images=20_000, clusters=20).run) as explorer:
        yield explorer


def first_screen(browser: Page, address: str) -> float:
    """Seconds until all pictures of the first screen are there."""
    browser.visit("about:blank")
    browser.visit(f"{address}#images")
    browser.wait(FIRST_SCREEN)
    return float(browser.run("performance.now()")) / 1000


def test_the_first_screen_is_quick_and_scrolling_leaves_no_tile_blank(browser: Page, large: Explorer) -> None:
    # The machine may be busy with other tests: the best of a few tries counts.
    seconds = first_screen(browser, large.address)
    for _ in range(4):
        if seconds >= 2:
            seconds = first_screen(browser, f"http://{large.host}/")
    assert seconds < 2
    waits = browser.run(JUMPS)
    for _ in range(2):
        if waits[len(waits) // 2] >= 300:
            waits = browser.run(JUMPS)
    assert waits[len(waits) // 2] < 300
    assert browser.run("document.querySelectorAll('.item').length") < 400  # of 20,000
    assert browser.run("document.querySelector('.grid-inner').clientHeight") > 100_000
    assert browser.errors == []
