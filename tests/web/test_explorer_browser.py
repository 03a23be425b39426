"""The explorer in a real browser: what a person does with it, and what nobody can do to it."""

import http.server
import json
import re
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from browser import Page
from explored_runs import HARMFUL_NAME, add_tree
from serving import NO_TOOLS, Explorer, served

from spice.progress import Progress
from spice.runs import Result, open_result
from spice.runs.artifacts import FEATURES, WORDS
from spice.runs.checks import Checks
from spice.runs.edits import read_edits
from spice.web.tools import Proposal

READY = "document.querySelector('.loading') === null && document.querySelectorAll('.thumb:not(.ready)').length === 0"
NAMES = "[...document.querySelectorAll('#cards .group-name')].map(name => name.value)"
SAID = "document.getElementById('messages').textContent"
CARD = "#cards [data-number='{}']"
BOX = "(b => [b.x, b.y, b.width, b.height])(document.querySelector({}).getBoundingClientRect())"
DRAG = """(() => {
  const data = new DataTransfer(), card = (number) => document.querySelector(`#cards [data-number='${number}']`);
  const fire = (to, kind) =>
    to.dispatchEvent(new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true}));
  fire(card(3), 'dragstart');
  fire(card(2), 'dragover');
  fire(card(2), 'drop');
  fire(card(2), 'dragend');
})()"""


def visit(page: Page, explorer: Explorer, view: str = "groups", *, width: int = 1280, dark: bool = False) -> None:
    page.visit("about:blank")
    page.visit(f"{explorer.address}#{view}", width=width, dark=dark)
    page.wait(READY)


def go(page: Page, view: str) -> None:
    page.run(f"location.hash = '#{view}'")
    page.wait(f"document.body.dataset.view === '{view.split('?', maxsplit=1)[0]}' && {READY}")


@pytest.fixture
def page(browser: Page, explorer: Explorer) -> Page:
    visit(browser, explorer)
    return browser


def box(page: Page, selector: str) -> tuple[float, float, float, float]:
    """Left, top, width, height."""
    left, top, width, height = page.run(BOX.format(json.dumps(selector)))
    return left, top, width, height


def press(page: Page, key: str, *, ctrl: bool = False, shift: bool = False) -> None:
    modifiers = 2 * ctrl + 8 * shift
    text = {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 and not ctrl else "")
    page.call(
        "Input.dispatchKeyEvent", type="keyDown", key=key, modifiers=modifiers, **({"text": text} if text else {})
    )
    page.call("Input.dispatchKeyEvent", type="keyUp", key=key, modifiers=modifiers)


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_every_view_draws_without_an_error(browser: Page, explorer: Explorer, width: int, dark: bool) -> None:
    visit(browser, explorer, width=width, dark=dark)
    for view in ("groups", "images", "map", "check", "howmany", "learn", "export"):
        go(browser, view)
        assert browser.run("document.documentElement.scrollWidth") == width, view  # nothing sticks out on a phone
        assert browser.run("[...document.querySelectorAll('button, input, select, a')].every(e => e.ariaLabel || "
                           "e.textContent.trim() || e.closest('label') || e.labels?.length)")  # fmt: skip
    assert browser.errors == []
    outside = [url for url in browser.requests if not url.startswith((f"http://{explorer.host}/", "about:"))]
    assert outside == []


def test_rename_merge_split_and_undo(page: Page, run: Result) -> None:
    # A name, typed on the card.
    page.click(CARD.format(2) + " .group-name")
    page.type("green things")
    press(page, "Enter")
    page.wait(f"{NAMES}.includes('green things')")
    # A card dragged onto another.
    page.run(DRAG)
    page.wait("document.querySelectorAll('#cards .card').length === 3")
    assert page.run(f"document.querySelector({json.dumps(CARD.format(2))}).textContent").count("24 images") == 1
    # A split, after a look at the parts.
    page.run(f"document.querySelector({json.dumps(CARD.format(0))}).focus()")
    press(page, "s")
    page.wait(
        "document.querySelectorAll('dialog .part').length === 2 && !document.querySelector('dialog .main').disabled"
    )
    page.click("dialog .main")
    page.wait("document.querySelectorAll('#cards .card').length === 4")
    sizes = page.run("[...document.querySelectorAll('#cards .size')].map(size => size.textContent)")
    assert sorted(sizes) == ["12 images", "24 images", "6 images", "6 images"]
    estimates = page.run("[...document.querySelectorAll('#cards .estimate')].map(one => one.textContent)")
    assert all(re.fullmatch(r"about \d+% right", estimate) for estimate in estimates)
    # Set aside, by key.
    page.run(f"document.querySelector({json.dumps(CARD.format(1))}).focus()")
    press(page, "x")
    page.wait("document.querySelectorAll('#cards .card').length === 3 && !!document.querySelector('.aside-list li')")
    kinds = [edit.operation.kind for edit in read_edits(run.run).edits]
    assert kinds == ["name", "merge", "split", "set_aside"]
    assert open_result(run.run).groups.names == {2: "green things"}
    # All of it taken back.
    page.run("document.activeElement.blur()")
    for left in (4, 3, 4, 4):
        press(page, "z", ctrl=True)
        page.wait(f"document.querySelectorAll('#cards .card').length === {left}")
        page.wait(f"{SAID}.startsWith('Undone')")
    page.wait("document.getElementById('undo').disabled")
    assert page.run(NAMES) == ["Group 0", "Group 1", "Group 2", "Group 3"]
    press(page, "z", ctrl=True, shift=True)
    page.wait(f"{NAMES}.includes('green things')")


def test_merge_offers_the_most_similar_group_first_and_finds_groups_by_number(browser: Page, run: Result) -> None:
    # Images of groups 1 and 3 look almost the same, and groups 0 and 2 like neither of them.
    directions = np.eye(8, dtype=np.float32)[[0, 1, 2, 1]] + np.eye(8, dtype=np.float32)[[0, 1, 2, 3]] / 4
    np.save(run / FEATURES, directions[run.labels.cluster])
    listed = "[...document.querySelectorAll('.choices li')].map(choice => choice.dataset.number)"
    with served(run.run) as explorer:
        visit(browser, explorer)
        browser.run("import('/assets/run.js').then(m => m.edit({kind: 'name', group: 0, name: 'item 3 of 4'}))")
        browser.run(f"document.querySelector({json.dumps(CARD.format(1))}).focus()")
        press(browser, "m")
        browser.wait(f"{listed}.length === 3 && {listed}[0] === '3'")
        browser.type("3")
        browser.wait(f"{listed}.join() === '3,0'")  # the number before a name with this digit
        press(browser, "Enter")
        browser.wait(f"{SAID} === 'Merged Group 1 and Group 3.'")
        assert [edit.operation.kind for edit in read_edits(run.run).edits] == ["name", "merge"]
        # An image can also be moved to a new group, but not to its own.
        go(browser, "images?group=2")
        browser.run("document.querySelector('.item').focus()")
        press(browser, "m")
        browser.wait(f"{listed}.length === 3 && {listed}[2] === undefined && !{listed}.includes('2')")
    assert browser.errors == []


def test_a_message_lets_clicks_through_to_what_it_covers(page: Page) -> None:
    page.run("import('/assets/dom.js').then(m => m.say('Done.', { action: 'Redo' }))")
    at = "(b => document.elementFromPoint(b.x + 3, b.y + b.height / 2))({}.getBoundingClientRect())"
    assert page.run(at.format("document.querySelector('.message')") + ".closest('.messages') === null")
    assert page.run(at.format("document.querySelector('.message button')") + ".textContent") == "Redo"


def test_a_suggested_name_is_a_guess_and_one_click_away(browser: Page, explorer: Explorer, run: Result) -> None:
    classes = {0: 951, 1: 571, 2: 0, 3: 999}  # lemon, gas pump, tench; nothing clear for the last
    index = np.repeat([[classes[number]] for number in run.labels.cluster.tolist()], 8, axis=1).astype(np.uint16)
    share = np.zeros(index.shape, np.float16)
    share[:, 0] = np.where(run.labels.cluster == 3, 0.1, 0.9)
    np.savez(run / WORDS, best=index, share=share)
    visit(browser, explorer)
    guesses = "[...document.querySelectorAll('.guess')].map(guess => guess.textContent)"
    assert browser.run(guesses) == ["lemon?", "gas pump?", "tench?"]
    browser.run(f"document.querySelector({json.dumps(CARD.format(1))}).focus()")
    press(browser, "a")
    browser.wait(f"{NAMES}.includes('gas pump')")
    assert browser.run(guesses) == ["lemon?", "tench?"]
    browser.click("#guesses button")
    browser.wait(f"{NAMES}.includes('tench')")
    assert open_result(run.run).groups.names == {0: "lemon", 1: "gas pump", 2: "tench"}
    assert browser.run(guesses) == []
    assert browser.errors == []


def test_another_number_of_groups_shows_its_progress_and_is_canceled(browser: Page, run: Result) -> None:
    asked: list[tuple[int, bool]] = []

    def regroup(clusters: int, cut: bool, progress: Progress) -> None:
        asked.append((clusters, cut))
        for step in range(10_000):
            progress("training heads", step, 10_000)
            time.sleep(0.01)

    with served(run.run, NO_TOOLS._replace(regroup=regroup)) as explorer:
        visit(browser, explorer, "howmany")
        browser.wait("!!document.querySelector('#another .main')")
        browser.click("#another .main")
        browser.wait("document.querySelector('#another progress')?.value > 0")
        assert "Training heads …" in browser.run("document.querySelector('#another').textContent")
        go(browser, "groups")  # it goes on meanwhile
        go(browser, "howmany")
        browser.wait("!!document.querySelector('#another progress')")
        browser.click("#another .buttons button")
        browser.wait("!!document.querySelector('#another .main')")
        assert browser.run("fetch('/api/training').then(found => found.json())")["running"] is False
        # What goes wrong is said.
        go(browser, "learn")
        browser.run("document.querySelector('.joint').open = true")
        browser.wait("!!document.querySelector('#joint button')")
        browser.run("document.querySelector('#joint button').click()")  # the mouse may miss it while the page is drawn
        browser.wait("document.querySelector('#joint .warning')?.textContent.startsWith('no training here')")
    assert asked == [(5, False)]
    assert browser.errors == []


def test_the_tree_is_cut_where_the_user_drags_and_its_groups_are_made(browser: Page, run: Result) -> None:
    # Leaves 0 and 1 are the halves of group 0, leaves 2 to 4 are the other groups; groups 1 and 2 are joined first.
    leaf = np.where(run.labels.cluster == 0, run.labels.prototype_rank >= 9, run.labels.cluster + 1)
    add_tree(run, leaf, [[2, 3], [0, 1], [5, 4], [6, 7]])
    ends = "JSON.stringify([...document.querySelectorAll('.ends small')].map(size => size.textContent))"
    asked: list[tuple[int, bool]] = []
    with served(run.run, NO_TOOLS._replace(regroup=lambda *wanted: asked.append(wanted[:2]))) as explorer:
        visit(browser, explorer, "howmany")
        whole, first = ["24 images, 50% in this group", "12 images"], ["9 images", "3 images"]
        browser.wait(f"{ends} === {json.dumps(json.dumps([*whole, *first], separators=(',', ':')))}")  # four groups now
        colored = browser.run("[...document.querySelectorAll('.dendrogram path.colored')].length")
        assert colored == 5  # four ends, and what joins the halves of group 0
        browser.resize(width=400, height=844)  # a phone shows the whole text, within the row
        assert browser.run("[...document.querySelectorAll('.ends small')].every(e => e.scrollWidth <= e.clientWidth && "
                           "e.closest('.end-label').offsetHeight <= e.closest('li').offsetHeight)")  # fmt: skip
        browser.resize(width=1280, height=900)
        browser.run("document.querySelector('#tree input').focus()")
        press(browser, "ArrowLeft")
        browser.wait(f"{ends} === {json.dumps(json.dumps([*whole, '12 images'], separators=(',', ':')))}")
        for _ in range(5):  # the tree has five leaves, and not one more
            press(browser, "ArrowRight")
        browser.wait(f"JSON.parse({ends}).length === 5")
        browser.click(".cut .main")
        wait_for(asked)
    assert asked == [(5, True)]
    assert browser.errors == []


def test_a_run_without_a_tree_offers_to_make_one(browser: Page, run: Result) -> None:
    asked: list[tuple[int, bool]] = []
    with served(run.run, NO_TOOLS._replace(regroup=lambda *wanted: asked.append(wanted[:2]))) as explorer:
        visit(browser, explorer, "howmany")
        browser.wait("!!document.querySelector('#tree .do')")
        browser.click("#tree .do")
        wait_for(asked)
    assert asked == [(4, True)]


def wait_for(asked: list[tuple[int, bool]]) -> None:
    """Until the page has asked for something."""
    end = time.monotonic() + 60
    while not asked:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_images_are_selected_and_moved(page: Page, run: Result) -> None:
    go(page, "images?group=1")
    assert page.run("document.getElementById('match-count').textContent") == "12 images."
    page.click(".item[data-place='2']")
    x, y, *_ = box(page, ".item[data-place='5']")
    for kind in ("mousePressed", "mouseReleased"):
        page.call("Input.dispatchMouseEvent", type=kind, x=x + 20, y=y + 20, button="left", clickCount=1, modifiers=8)
    page.wait("document.querySelectorAll('.item[aria-selected=true]').length === 4")
    page.run("document.querySelector(\".item[data-place='2']\").focus()")
    press(page, "m")
    page.wait("!!document.querySelector('dialog.choose')")
    page.type("3")
    page.wait("document.querySelectorAll('.choices li').length === 2")
    press(page, "Enter")
    page.wait(f"{SAID} === '4 images moved to Group 3.'")
    groups = open_result(run.run).groups
    assert (groups.group == 3).sum() == 16
    assert groups.by_person.sum() == 4
    # They stay on the screen, marked, so that a mistake can be seen.
    assert page.run("[...document.querySelectorAll('.trust.you')].length") == 4
    # A large picture and its neighbors.
    page.run("document.querySelector(\".item[data-place='0']\").focus()")
    press(page, "Enter")
    page.wait(
        "document.querySelector('.large')?.naturalWidth > 0 && document.querySelectorAll('.near .picture').length === 6"
    )
    press(page, "n")
    page.wait(f"{SAID} === '1 image moved to the next best group.'")
    assert (open_result(run.run).groups.group == 1).sum() == 7


def test_two_images_are_told_apart_by_keys_alone(page: Page, run: Result) -> None:
    go(page, "images?group=1")
    page.run("document.querySelector(\".item[data-place='0']\").focus()")
    for key in (" ", "t"):
        press(page, key)
    page.wait(f"{SAID} === 'Select two images first.'")
    for key in ("ArrowRight", " ", "d"):
        press(page, key)
    page.wait(f"{SAID}.startsWith('Saved')")
    assert [edit.operation.kind for edit in read_edits(run.run).edits] == ["different"]
    press(page, "?")
    page.wait("document.querySelector('dialog.keys-list')?.open")
    shown = page.run("document.querySelector('dialog.keys-list').textContent")
    assert "Two images: same group, different groups" in shown


def test_the_lasso_selects_what_it_encloses(page: Page, run: Result) -> None:
    go(page, "map")
    page.wait("import('/assets/map.js').then(m => !!m.plot?.unit)")  # it is laid out after the first frame
    start = np.array(box(page, "#map-canvas")[:2])
    rows = (run.labels.cluster == 0).nonzero()[0].tolist()
    places = start + page.run(f"import('/assets/map.js').then(m => {rows}.map(row => m.plot.at(row)))")
    (west, north), (east, south) = places.min(axis=0) - 8, places.max(axis=0) + 8
    corners = [(west, north), (east, north), (east, south), (west, south)]
    page.click("#map-lasso")
    page.call(
        "Input.dispatchMouseEvent", type="mousePressed", x=corners[0][0], y=corners[0][1], button="left", clickCount=1
    )
    for corner in corners[1:]:
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=corner[0], y=corner[1], button="left", buttons=1)
    page.call(
        "Input.dispatchMouseEvent",
        type="mouseReleased",
        x=corners[-1][0],
        y=corners[-1][1],
        button="left",
        clickCount=1,
    )
    page.wait("document.querySelector('#selection strong')?.textContent === '12 images'")
    chosen = page.run("import('/assets/selection.js').then(m => [...m.selected])")
    assert sorted(chosen) == rows
    # The bar covers nothing in a view where no image can be selected, and is there again on the way back.
    shown = "document.getElementById('selection').checkVisibility()"
    assert page.run(shown)
    go(page, "export")
    assert not page.run(shown)
    go(page, "images")
    assert page.run(shown)


def test_before_learning_the_page_leads_to_the_most_doubtful_images(page: Page) -> None:
    page.run("location.hash = '#learn'")
    page.wait("document.querySelectorAll('.steps li').length === 3")
    page.click(".steps li:nth-child(2) a")
    page.wait("!!document.querySelector('.item')")
    assert page.run("document.getElementById('choose-sort').value") == "doubt"


def test_a_second_click_on_accept_does_nothing(browser: Page, run: Result) -> None:
    accepted: list[float] = []

    def learn(progress: Progress) -> Proposal:
        progress("learning", 1, 1)
        return Proposal(np.where(run.labels.cluster == 0, 1, run.labels.cluster), lambda: accepted.append(time.time()))

    with served(run.run, NO_TOOLS._replace(learn=learn)) as explorer:
        visit(browser, explorer)
        browser.run("import('/assets/run.js').then(m => m.edit({kind: 'name', group: 3, name: 'cats'}))")
        go(browser, "learn")
        browser.wait("document.querySelector('#learning .main')?.disabled === false")
        browser.click("#learning .main")
        browser.wait("document.querySelectorAll('#learning .result').length === 1")
        browser.run("(accept => { accept.click(); accept.click(); })(document.querySelector('#learning .main'))")
        browser.wait(f"{SAID}.startsWith('Accepted')")
        browser.run("import('/assets/run.js').then(m => m.edit({kind: 'name', group: 3, name: 'dogs'}))")  # waits
    assert len(accepted) == 1
    assert browser.errors == []


def test_a_check_narrows_the_interval_with_every_answer(page: Page, run: Result) -> None:
    go(page, "check")
    width = "parseFloat(document.querySelector('#estimates .interval i')?.style.width)"
    count = "document.querySelector('#question .eyebrow')?.textContent"
    for number, key in enumerate("yyn"):
        page.wait(f"{count} === '{number + 1} of 48'")
        press(page, key)
    page.wait(f"{count} === '4 of 48' && {width} > 0")
    early = page.run(width)
    press(page, "b")
    page.wait(f"{count} === '3 of 48'")
    for number in range(2, 20):
        page.wait(f"{count} === '{number + 1} of 48'")
        press(page, "u" if number == 5 else "y")
    page.wait(f"{count} === '21 of 48'")
    assert page.run(width) < early
    assert [page.run(f"document.querySelectorAll('#estimates dd')[{place}].textContent") for place in range(3)] == [
        "19",
        "0",
        "1",
    ]
    assert Checks(open_result(run.run)).summary().answers == 19


def test_a_harmful_name_is_text(page: Page) -> None:
    go(page, "images")
    page.run("document.getElementById('search').focus()")
    page.type("<img")
    page.wait("document.querySelectorAll('.item').length === 1")
    assert page.run("document.querySelector('.item .name').textContent").endswith(HARMFUL_NAME)
    go(page, "groups")
    page.click(CARD.format(0) + " .group-name")
    page.type("<script>alert(1)</script>")
    press(page, "Enter")
    page.wait(f"{NAMES}.includes('<script>alert(1)</script>')")
    assert page.run("document.querySelectorAll('img[src=x], body script').length") == 0
    # Even markup that had found a way in could not run.
    page.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.harmed = true\">')")
    page.run(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.harmed = true'}))"
    )
    assert page.run("window.harmed") is None


class _OtherPage(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<p>another page</p>")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def other_page() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _OtherPage)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


TRIES = """(async () => {
  const fetched = (path, request) =>
    fetch('HERE' + path, {credentials: 'include', ...request}).then(a => a.text(), () => 'refused');
  const picture = new Promise((done) => {
    const image = new Image();
    image.onload = () => done('seen');
    image.onerror = () => done('refused');
    image.src = 'HERE/picture/IMAGES/0';
  });
  const change = {method: 'POST', headers: {'content-type': 'application/json'}, body: '{}'};
  const blind = {method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}'};
  return [await fetched('/api/state'), await picture, await fetched('/api/edit', change),
    await fetch('HERE/api/undo', blind).then(a => a.type, () => 'refused')];
})()"""


def test_a_page_of_another_origin_gets_nothing(page: Page, explorer: Explorer, other_page: str, run: Result) -> None:
    images = page.run("import('/assets/run.js').then(m => m.run.info.images)")
    here = f"http://{explorer.host}"
    page.visit(other_page)
    told = page.run(TRIES.replace("HERE", here).replace("IMAGES", images))
    assert told == ["refused"] * 4
    assert read_edits(run.run).revision == 0


LATE = """import('/assets/run.js').then((m) => {
  m.run.info.version = 'made-0';
  return m.edit({kind: 'name', group: 3, name: 'late'});
})"""


def test_a_second_browser_sees_the_edits_of_the_first(page: Page, run: Result) -> None:
    with served(run.run) as second:
        second.enter()
        assert second.edit({"kind": "name", "group": 3, "name": "from elsewhere"}).status == 200
        page.wait(f"{NAMES}.includes('from elsewhere')")
        # One that has not looked yet is told, and then shows what is there.
        page.run(LATE)
        assert "changed elsewhere" in page.run(SAID)
    assert open_result(run.run).groups.names == {3: "from elsewhere"}


# Random edits, made through the page's own code. One that is refused (a name that is taken) does not count.
RANDOM = """(async () => {
  const { run, edit } = await import('/assets/run.js');
  let state = 7;
  const random = (below) => (state = (state * 1103515245 + 12345) % 2147483648, Math.floor(state / 65536) % below);
  const some = (count) => Array.from({length: count}, () => random(run.path.length));
  let done = 0;
  while (done < 100) {
    const groups = run.info.groups.filter(group => group.size > 1);
    const [one, two] = [0, 1].map(() => groups[random(groups.length)].number);
    const members = [...run.group.keys()].filter(row => run.group[row] === one);
    const operation = [
      () => ({kind: 'name', group: one, name: `name ${done}`}),
      () => ({kind: 'merge', groups: [one, two]}),
      () => ({kind: 'split', group: one, parts: [members.slice(0, 1 + random(members.length - 1))]}),
      () => ({kind: 'set_aside', group: one, aside: random(2) === 1}),
      () => ({kind: 'move', rows: some(3), group: random(4) ? one : null}),
      () => ({kind: 'reject', rows: some(1)}),
      () => ({kind: random(2) ? 'same' : 'different', rows: some(2)}),
    ][run.info.groups.length < 3 ? 2 : random(7)]();
    if (await edit(operation)) done++;
  }
  return done;
})()"""


def test_a_hundred_random_edits_undone_leave_the_same_bytes(browser: Page, run: Result) -> None:
    before, table = open_result(run.run).groups, (run.run / "labels.csv").read_bytes()
    with served(run.run) as explorer:
        visit(browser, explorer)
        assert browser.run(RANDOM) == 100
        changed = open_result(run.run).groups
        assert changed.group.tobytes() != before.group.tobytes()
        steps = read_edits(run.run).revision
        assert steps >= 100
        browser.run(
            f"import('/assets/run.js').then(async m => {{ for (let i = 0; i < {steps}; i++) await m.undo(); }})"
        )
    after = open_result(run.run).groups
    for name, value in after._asdict().items():
        assert np.array_equal(value, getattr(before, name)), name
    assert (run.run / "labels.csv").read_bytes() == table
