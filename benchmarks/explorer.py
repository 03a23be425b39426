"""Speed of the explorer with many synthetic images in a real browser: the first screen, scrolling, the map.

python benchmarks/explorer.py --images 20000
"""

import argparse
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "shared"))

from browser import COMMAND, Page, chromium
from explored_runs import make_large_run
from serving import opened

FRAMES = "const frame = () => new Promise(requestAnimationFrame);"
BLANK = """const blank = () => [...document.querySelectorAll('.item')].filter(item => {
  const box = item.getBoundingClientRect();
  return box.bottom > 0 && box.top < innerHeight && !item.querySelector('.thumb.ready');
}).length;"""
# Jumps to distant places, as by dragging the scroll bar; how long any tile on the screen stays blank after each.
SCROLL = f"""(async () => {{
  {FRAMES} {BLANK}
  const grid = document.querySelector('.grid'), waits = [];
  for (let jump = 0; jump < JUMPS; jump++) {{
    grid.scrollTop = ((jump * 0.618) % 1) * grid.scrollHeight;
    const start = performance.now();
    do await frame(); while (blank());
    waits.push(performance.now() - start);
  }}
  return waits;
}})()"""
# Scrolls with the wheel without a pause; the share of frames with a blank tile, and the longest time of one.
WHEEL = f"""(async () => {{
  {FRAMES} {BLANK}
  const grid = document.querySelector('.grid');
  grid.scrollTop = 0;
  let blanks = 0, longest = 0, since = null;
  for (let step = 0; step < 200; step++) {{
    grid.scrollTop += 120;
    await frame();
    const now = performance.now();
    if (!blank()) {{ since = null; continue; }}
    since ??= now;
    blanks++;
    longest = Math.max(longest, now - since);
  }}
  return [blanks / 200, longest];
}})()"""
MAP = f"""(async () => {{
  {FRAMES}
  const canvas = document.getElementById('map-canvas');
  const at = {{clientX: 600, clientY: 400, cancelable: true}};
  const turn = (deltaY) => canvas.dispatchEvent(new WheelEvent('wheel', {{deltaY, ...at}}));
  await frame();
  const start = performance.now();
  for (let step = 0; step < 90; step++) {{ turn(step % 60 < 30 ? -20 : 20); await frame(); }}
  return 90000 / (performance.now() - start);
}})()"""


def first_screen(page: Page, address: str) -> float:
    """Seconds from the request of the page until all pictures on the screen are loaded."""
    page.visit(f"{address}#images")
    page.wait("!!document.querySelector('.item') && document.querySelectorAll('.thumb:not(.ready)').length === 0")
    return float(page.run("performance.now()")) / 1000


def server_cost(run: Path) -> None:
    """Processor time and memory of the server until the first screen is loaded. Run it in a process of its own."""
    import resource

    from spice.web.content import column, describe, paths
    from spice.web.session import Session

    started = time.process_time()
    state = Session(run).state()
    describe(state)
    paths(state)
    for name in ("group", "person", "chance", "reliable", "outlier", "rank", "x", "y"):
        column(state, name)
    state.opened.pictures.strip(list(range(64)), 96)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"server, first screen    {time.process_time() - started:.1f} s of processor time, {peak:.2f} GB of memory")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--clusters", type=int, default=20)
    parser.add_argument("--jumps", type=int, default=50)
    given = parser.parse_args()
    if COMMAND is None:
        sys.exit("chromium is not installed; install it with scripts/install-chromium.sh")
    with tempfile.TemporaryDirectory(prefix="spice-explorer-") as folder:
        run = make_large_run(Path(folder) / "run", images=given.images, clusters=given.clusters)
        serving = get_context("spawn").Process(target=server_cost, args=(run.run,))
        serving.start()
        serving.join()
        with opened(run.run) as explorer, chromium() as page:
            print(f"{given.images:,} images in {given.clusters} groups")
            print(f"first screen            {first_screen(page, explorer.address):.2f} s")
            waits = sorted(page.run(SCROLL.replace("JUMPS", str(given.jumps))))
            print(f"blank after a jump      median {waits[len(waits) // 2]:.0f} ms, longest {waits[-1]:.0f} ms")
            blanks, longest = page.run(WHEEL)
            print(f"blank while scrolling   {blanks:.0%} of frames, longest {longest:.0f} ms")
            print(f"elements of the list    {page.run('document.querySelectorAll(`.item`).length')}")
            page.run("location.hash = '#map'")
            page.wait("!!document.getElementById('map-canvas')")
            print(f"map, zooming            {page.run(MAP):.0f} frames per second")


if __name__ == "__main__":
    main()
