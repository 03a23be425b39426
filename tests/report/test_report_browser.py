"""The page in a real browser: it draws, answers, requests nothing, and stays small."""

import json
import shutil
from pathlib import Path

import pytest
from browser import Page
from pictured_runs import HARMFUL, add_all_stages, make_pictured_run

from spice.report import write_report
from spice.runs import Result

FOUND = "document.getElementById('match-count').textContent"
NAMES = "[...document.querySelectorAll('#gallery .name')].map(name => name.textContent)"
TRUST = "[...document.querySelectorAll('#gallery .trust')].map(trust => parseFloat(trust.textContent))"
HINT = "document.getElementById('map-hint')"


@pytest.fixture(scope="module")
def small_page(small: Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With everything that a page can hold: all three stages, and scores."""
    run = Path(shutil.copytree(small.run, tmp_path_factory.mktemp("whole") / "run", symlinks=True))
    return write_report(add_all_stages(run))


@pytest.fixture
def page(browser: Page, small_page: Path) -> Page:
    browser.open(small_page)
    return browser


def hover(page: Page, image: int) -> tuple[float, float]:
    """Move the mouse to a point of the map, once the map is there, until the page has noticed."""
    page.run("document.getElementById('map').scrollIntoView({behavior: 'instant'})")
    page.wait(f"{PIXELS}.length > 5000")
    for _ in range(100):
        x, y = page.run(POINT.replace("IMAGE", str(image)))
        page.mouse("mouseMoved", x, y)
        if not page.run(f"{HINT}.hidden"):
            return x, y
        page.mouse("mouseMoved", x + 40, y + 40)
    raise AssertionError(f"no hint for image {image}")


def choose(page: Page, control: str, value: str) -> None:
    """As a user would: the value changes, and the page gets the events."""
    page.run(
        f"(() => {{ const e = document.getElementById('{control}'); e.value = {json.dumps(value)};"
        "for (const kind of ['input', 'change']) e.dispatchEvent(new Event(kind, {bubbles: true})); })()"
    )


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_it_draws_without_an_error_or_a_request(browser: Page, small_page: Path, width: int, dark: bool) -> None:
    browser.open(small_page, width=width, dark=dark)
    browser.wait("document.querySelectorAll('#gallery li').length === 96")
    assert browser.errors == []
    elsewhere = [url for url in browser.requests if not url.startswith(("data:", "blob:"))]
    assert elsewhere == [small_page.resolve().as_uri()]
    assert browser.run("document.documentElement.scrollWidth") == width  # nothing sticks out on a phone
    assert browser.run("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(20, 19, 17)" if dark else "rgb(251, 250, 248)")


def test_a_harmful_name_is_shown_and_does_nothing(page: Page) -> None:
    page.run("document.getElementById('search').focus()")
    page.type("<script>")
    page.wait(f"{FOUND} === '1 image.'")
    assert page.run(NAMES) == [HARMFUL]
    assert page.run("document.querySelector('#cluster-0 .picture').title").startswith(HARMFUL + "\n")
    page.click("#cluster-0 .picture")
    page.wait("document.getElementById('detail').open")
    assert page.run("document.getElementById('detail-name').textContent") == HARMFUL
    assert HARMFUL in page.run("document.querySelector('.warning').textContent")
    assert page.run("[...document.scripts].filter(script => script.textContent.startsWith('alert')).length") == 0
    # Even markup that had found a way in could not run: only the page's own script may.
    page.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.harmed = true\">')")
    page.run(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.harmed = true'}))"
    )
    assert page.run("window.harmed") is None


def test_search_filter_and_sort_find_images(page: Page) -> None:
    assert page.run(FOUND) == "300 images."
    page.run("document.getElementById('search').focus()")
    page.type("PHOTO-0001")
    page.wait(f"{FOUND} === '10 images.'")
    assert all("photo-0001" in name for name in page.run(NAMES))
    choose(page, "search", "")
    choose(page, "least", "0.9")
    choose(page, "sort", "doubt")
    found = page.run(TRUST)
    assert found == sorted(found)
    assert found[0] >= 90
    choose(page, "trust", "0")
    assert 0 < int(page.run(FOUND).split()[0]) < 300
    assert max(page.run(TRUST)) <= 95
    choose(page, "in-cluster", "5")
    assert page.run(FOUND) == "0 images."
    choose(page, "sort", "path")
    choose(page, "trust", "")
    choose(page, "in-cluster", "2")
    choose(page, "least", "0")
    names = page.run(NAMES)
    assert names == sorted(names)


def test_more_images_are_shown_on_request(page: Page) -> None:
    page.click("#more")
    page.wait("document.querySelectorAll('#gallery li').length === 192")
    page.click("[data-show='1']")
    page.wait("document.getElementById('in-cluster').value === '1'")
    assert page.run("[...document.querySelectorAll('#gallery .facts')].every(f => f.textContent.startsWith('Group 1'))")


def test_a_point_of_the_map_shows_its_image(page: Page) -> None:
    x, y = hover(page, 7)
    assert "photo-" in page.run(f"{HINT}.textContent")
    assert page.run(f"getComputedStyle({HINT}.querySelector('.thumb')).backgroundImage").startswith('url("blob:')
    page.mouse("mousePressed", x, y)
    page.mouse("mouseReleased", x, y)
    page.wait("document.getElementById('detail').open")
    assert page.run("document.getElementById('detail-name').textContent") in page.run(f"{HINT}.textContent")


# Where a point of the map lies in the window.
POINT = """(() => {
  const box = document.getElementById('map-canvas').getBoundingClientRect(), [x, y] = plot.at(IMAGE);
  return [box.x + x, box.y + y];
})()"""


def test_the_map_answers_to_keys_legend_and_zoom(page: Page) -> None:
    page.run("document.getElementById('map-canvas').focus()")
    page.key("ArrowRight")
    page.wait(f"!{HINT}.hidden")
    first = page.run(f"{HINT}.textContent")
    page.key("ArrowRight")
    page.wait(f"{HINT}.textContent !== {json.dumps(first)}")
    page.key("Enter")
    page.wait("document.getElementById('detail').open")
    page.run("document.getElementById('detail').close()")
    before = page.run(PIXELS)
    # By script: right after a dialog has closed, the browser may still give the mouse to its backdrop.
    page.run("document.querySelector(\"#map-legend button[data-cluster='2']\").click()")
    page.wait("document.querySelector('#map-legend [aria-pressed=true]')?.dataset.cluster === '2'")
    page.wait(f"{PIXELS} !== {json.dumps(before)}")
    alone = page.run(PIXELS)
    page.click("#map-in")
    page.wait(f"{PIXELS} !== {json.dumps(alone)}")


PIXELS = "document.getElementById('map-canvas').toDataURL()"


def test_fading_changes_what_is_drawn(page: Page) -> None:
    page.wait(f"{PIXELS}.length > 5000")
    faded = page.run(PIXELS)
    page.click("#map-fade")
    page.wait(f"{PIXELS} !== {json.dumps(faded)}")
    plain = page.run(PIXELS)
    choose(page, "map-color", "chance")
    page.wait(f"{PIXELS} !== {json.dumps(plain)}")
    assert page.run("!document.getElementById('map-scale').hidden && document.getElementById('map-fade').disabled")


def test_clusters_are_sorted_and_attention_is_shown(page: Page) -> None:
    order = "[...document.querySelectorAll('#cards .card')].map(card => Number(card.dataset.share))"
    choose(page, "sort-clusters", "share")
    shares = page.run(order)
    assert shares == sorted(shares, reverse=True)
    page.click("#attention")
    page.wait("getComputedStyle(document.querySelector('.attention')).opacity === '1'")


def test_light_and_dark_can_be_changed_by_hand(page: Page) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    page.click("#theme")
    page.wait(f"{background} === 'rgb(20, 19, 17)'")
    dot = page.run("getComputedStyle(document.querySelector('.dot')).backgroundColor")
    page.click("#theme")
    page.wait(f"{background} === 'rgb(251, 250, 248)'")
    assert page.run("getComputedStyle(document.querySelector('.dot')).backgroundColor") != dot


def test_everything_has_a_name_for_those_who_cannot_see_it(page: Page) -> None:
    unnamed = page.run(
        "[...document.querySelectorAll('input, select')].filter(e => !e.labels.length).map(e => e.id)"
        ".concat([...document.images].filter(e => !e.hasAttribute('alt')).map(e => e.id))"
        ".concat([...document.querySelectorAll('button')].filter(e => !(e.textContent.trim() || e.ariaLabel ||"
        " e.querySelector('img[alt]'))).map(e => e.outerHTML))"
    )
    assert unnamed == []
    assert page.run("document.documentElement.lang") == "en"
    repeated = page.run(
        "(ids => ids.filter((id, at) => ids.indexOf(id) !== at))([...document.querySelectorAll('[id]')].map(e => e.id))"
    )
    assert repeated == []


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_what_is_behind_it(browser: Page, small_page: Path, dark: bool) -> None:
    browser.open(small_page, dark=dark)
    weakest = browser.run(CONTRAST)
    assert weakest[0] >= 4.5, weakest


# The smallest contrast of any text with the first opaque color behind it, by the rule of WCAG 2.
CONTRAST = """(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
  const rgba = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
                            return canvas.getImageData(0, 0, 1, 1).data; };
  const light = (color) => { const [r, g, b] = [...rgba(color)].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { for (; e; e = e.parentElement) {
    const color = getComputedStyle(e).backgroundColor; if (rgba(color)[3] === 255) return color; } return 'white'; };
  let worst = [99, ''];
  for (const e of document.querySelectorAll('main *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || e.closest('svg')) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < worst[0]) worst = [contrast, e.outerHTML.slice(0, 120)];
  }
  return worst;
})()"""


def first_paint(page: Page, path: Path) -> float:
    """Milliseconds until there is something to see."""
    page.open(path)
    entry = "performance.getEntriesByName('first-contentful-paint')[0]"
    page.wait(f"!!{entry}")
    return float(page.run(f"{entry}.startTime"))


def test_twenty_thousand_images_stay_light_and_quick(browser: Page, large: Result) -> None:
    written = write_report(large)
    assert written.stat().st_size < 30_000_000
    assert min(first_paint(browser, written) for _ in range(2)) < 3000  # twice, for machines that are busy
    browser.wait("document.querySelectorAll('#gallery li').length === 96")
    assert browser.errors == []
    assert browser.run(FOUND) == "20,000 images."
    browser.run("document.getElementById('search').focus()")
    browser.type("photo-12345")
    browser.wait(f"{FOUND} === '1 image.'")
    hover(browser, 15000)


@pytest.mark.parametrize("width", [1280, 390])
def test_links_lead_to_where_they_say(browser: Page, small_page: Path, width: int) -> None:
    browser.open(small_page, width=width)
    for section in ("clusters", "map", "images", "training"):
        browser.click(f"nav a[href='#{section}']")
        top = f"document.getElementById('{section}').getBoundingClientRect().top"
        browser.wait(f"{top} >= 0 && {top} < 120")  # under the bar, not behind it


@pytest.mark.parametrize("width", [1280, 390])
def test_very_many_clusters_have_small_cards_and_folded_verdicts(browser: Page, tmp_path: Path, width: int) -> None:
    browser.open(write_report(make_pictured_run(tmp_path / "run", images=700, clusters=160)), width=width)
    assert browser.errors == []
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.run("document.getElementById('cards').classList.contains('compact')")
    seen = "[...document.querySelectorAll('#verdicts li')].filter(e => e.offsetHeight).length"
    assert browser.run(seen) == 12
    browser.click("#all-verdicts")
    browser.wait(f"{seen} === 160")


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_written_in_a_chart_is_cut_off(browser: Page, small_page: Path, width: int) -> None:
    browser.open(small_page, width=width)
    cut = browser.run(
        "[...document.querySelectorAll('.chart text')].filter(text => { const [a, b] = [text, text.ownerSVGElement]"
        ".map(e => e.getBoundingClientRect()); return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1"
        " || a.bottom > b.bottom + 1; }).map(text => text.textContent)"
    )
    assert cut == []
    assert browser.run("document.querySelectorAll('.chart').length") == 7
