"""Take the pictures of README and docs: real runs of the program on images with a free license.

    python scripts/take_pictures.py DATA [--only PART]

DATA has the extracted collections, one folder per class: `caltech` (Caltech-101), `trash` (TrashNet) and `fruits`
(Fruits-360). All pictures take about ten minutes on two cores. Needs Chromium and the extras `figures` and `lite2`.
"""

import argparse
import csv
import json
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import cos, pi, sin
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from numpy.typing import NDArray
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "shared"))

from browser import Page, chromium  # noqa: E402
from serving import opened  # noqa: E402

from spice.runs import Labels, open_result, summarize  # noqa: E402

OUT = ROOT / "docs" / "images"
WIDTH, DENSITY = 1040, 1.4  # little wider than a page of the docs, and sharp on fine screens
FEW = ("starfish", "crab", "grand_piano", "llama", "strawberry")
MANY = (
    "Leopards", "Motorbikes", "airplanes", "bonsai", "butterfly", "chandelier", "dolphin", "grand_piano", "hawksbill",
    "helicopter", "kangaroo", "ketch", "sunflower",
)  # fmt: skip
READY = "!document.querySelector('.loading') && !document.querySelector('.thumb:not(.ready)')"

Pictures = Iterator[tuple[str, Image.Image]]  # names of files without ending, and what they show


class Studio(NamedTuple):
    """What every picture is taken with."""

    data: Path
    work: Path
    page: Page


class Photos(NamedTuple):
    """A run on a folder of photos, and what a person sees in them, who corrects groups and answers questions."""

    folder: Path
    run: Path
    truth: dict[str, str]  # file name -> class
    labels: Labels

    def kinds(self, group: int) -> list[tuple[str, int]]:
        """Classes in a group and their numbers of images, the largest first."""
        rows = np.flatnonzero(self.labels.cluster == group)
        return Counter(self.truth[self.labels.path[row]] for row in rows).most_common()

    def misplaced(self, group: int) -> list[str]:
        """Files of a group that are not of its main class, the lowest chance first."""
        rows = sorted(np.flatnonzero(self.labels.cluster == group), key=lambda row: self.labels.chance[row])
        return [path for row in rows if self.truth[path := self.labels.path[row]] != self.kinds(group)[0][0]]

    @property
    def most_mixed(self) -> int:
        """The group whose second class is largest."""
        groups = range(self.labels.cluster.max() + 1)
        return max(groups, key=lambda group: [count for _, count in self.kinds(group)][1:2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", choices=PARTS, help="take the pictures of this part alone")
    parser.add_argument("--work", type=Path, help="keep the runs here, to take pictures again in less time")
    given = parser.parse_args()
    with TemporaryDirectory() as scratch, chromium() as page:
        studio = Studio(given.data.resolve(), (given.work or Path(scratch)).resolve(), page)
        for part in [given.only] if given.only else PARTS:
            for name, picture in PARTS[part](studio):
                file = OUT / f"{name}.webp"
                picture.save(file, quality=75, method=6)
                print(f"{name}: {picture.width} x {picture.height}, {file.stat().st_size:,} bytes", flush=True)


def spice(*arguments: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "spice", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def photos(studio: Studio, name: str, classes: tuple[str, ...], count: int, *, seed: int) -> Photos:
    """A run on up to `count` photos per class, shuffled into one folder under names that say nothing."""
    folder, run = studio.work / name / "photos", studio.work / name / "photos.spice"
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    chosen = [file for kind in classes for file in some(studio.data / "caltech" / kind, count, draw)]
    draw.shuffle(chosen)
    numbers = sorted(draw.sample(range(1000, 9999), len(chosen)))
    files = {f"IMG_{number}.jpg": file for number, file in zip(numbers, chosen, strict=True)}
    for new, file in files.items():
        shutil.copy(file, folder / new)
    spice("cluster", folder, "--out", run)
    return Photos(folder, run, {new: file.parent.name for new, file in files.items()}, open_result(run).labels)


def some(folder: Path, count: int, draw: random.Random) -> list[Path]:
    files = sorted(folder.iterdir())
    return draw.sample(files, min(count, len(files)))


@contextmanager
def explorer(studio: Studio, run: Path) -> Iterator[Path]:
    """`spice open` on a copy of the run, which keeps its edits; yields the copy."""
    with TemporaryDirectory(dir=studio.work) as scratch:
        copy = shutil.copytree(run, Path(scratch) / run.name)
        with opened(copy) as served:
            studio.page.visit(served.address, width=WIDTH, height=800, density=DENSITY)
            studio.page.wait(READY)
            yield copy


def accept_names(page: Page) -> None:
    press(page, "#guesses button")
    page.wait("!document.querySelector('#guesses button')")
    page.run("document.getElementById('messages').replaceChildren()")


def go(page: Page, view: str, until: str) -> None:
    """Open a view, and wait until an element of it is there."""
    page.run(f"location.hash = '{view}'")
    page.wait(f"!!{element(until)} && {READY}")


def press(page: Page, selector: str) -> None:
    page.run(f"{element(selector)}.click()")


def element(selector: str) -> str:
    return f"document.querySelector({json.dumps(selector)})"


def box(page: Page, selector: str) -> list[float]:
    """The edges of an element: left, top, right, bottom."""
    return list(page.run(f"(b => [b.left, b.top, b.right, b.bottom])({element(selector)}.getBoundingClientRect())"))


def shown(page: Page, edges: list[float] | None = None) -> Image.Image:
    """The page as it is, or the part within these edges."""
    page.run("new Promise(done => setTimeout(() => requestAnimationFrame(() => done(true)), 300))")  # the last paint
    with TemporaryDirectory() as scratch:
        page.screenshot(Path(scratch) / "screen.png")
        picture = Image.open(Path(scratch) / "screen.png").convert("RGB")
    density = page.run("devicePixelRatio")
    return picture.crop(tuple(round(edge * density) for edge in edges)) if edges else picture


def explorer_pictures(studio: Studio) -> Pictures:
    page, of = studio.page, photos(studio, "many", MANY, 60, seed=0)
    with explorer(studio, of.run):
        yield "explorer-groups", shown(page)
        page.resize(width=400, height=844, density=1.5)
        press(page, "#theme")
        yield "explorer-phone", shown(page)
        press(page, "#theme")
        page.resize(width=WIDTH, height=720, density=DENSITY)
        accept_names(page)

        press(page, f"#cards [data-number='{of.most_mixed}'] .actions button:nth-of-type(2)")
        page.wait(f"document.querySelectorAll('dialog .part').length === 2 && {READY}")
        yield "explorer-split", shown(page)
        press(page, "dialog .close")

        go(page, f"images?group={of.most_mixed}&sort=doubt", until=".item")
        for name in of.misplaced(of.most_mixed)[:3]:
            press(page, f".item[title='{name}']")
        yield "explorer-images", shown(page)
        press(page, ".item[aria-selected='true'] .enlarge")
        page.wait(f"document.querySelector('.large')?.naturalWidth > 0 && !!{element('.near .picture')} && {READY}")
        page.run("document.activeElement.blur()")
        yield "explorer-nearest", shown(page)
        press(page, "dialog .close")
        page.run("import('/assets/selection.js').then(m => m.clear())")

        page.resize(width=WIDTH, height=840, density=DENSITY)
        draw_lasso(page, [of.labels.path.index(name) for name in of.misplaced(of.most_mixed)])
        yield "explorer-map", shown(page, [0, 0, WIDTH, box(page, "#map-legend")[3] + 12])

        page.resize(width=WIDTH, height=560, density=DENSITY)
        answer_questions(page, of)
        yield "explorer-check", shown(page)

    run = studio.work / "merge.spice"
    spice("cluster", of.folder, "-k", "20", "--out", run)  # more groups than classes: some classes are in two groups
    with explorer(studio, run):
        accept_names(page)
        press(page, ".suggested summary")
        page.resize(width=WIDTH, height=1000, density=DENSITY)
        page.wait(f"!!{element('.suggestion')} && {READY}")
        left, top, right, _ = box(page, "#merges")
        yield "explorer-merge", shown(page, [left - 16, top - 16, right + 16, box(page, ".suggestion")[3] + 16])


def draw_lasso(page: Page, rows: list[int]) -> None:
    """A lasso on the map around most of these images; the mouse button is still down at the end."""
    go(page, "map", until="#map-lasso")
    page.wait("import('/assets/map.js').then(m => !!m.plot?.unit)")
    press(page, "#map-lasso")
    places = np.array(page.run(f"import('/assets/map.js').then(m => {rows}.map(row => m.plot.at(row)))"))
    low, high = np.quantile(places, (0.1, 0.9), axis=0)
    middle, half = (low + high) / 2 + box(page, "#map-canvas")[:2], 0.6 * (high - low) + 14
    line = [middle + half * (cos(pi * step / 30), sin(pi * step / 30)) for step in range(60)]
    for kind, (x, y) in zip(["mousePressed", *["mouseMoved"] * 59], line, strict=True):
        page.mouse(kind, x, y)


def answer_questions(page: Page, of: Photos) -> None:
    """Thirty answers of a check, so that the 31st question is shown."""
    page.run("location.hash = 'check'")
    at = "document.querySelector('#question .eyebrow')?.textContent"
    for number in range(1, 31):
        page.wait(f"{at} === '{number} of 50'")
        name = page.run("document.querySelector('#question > .note').textContent")
        group = int(of.labels.cluster[of.labels.path.index(name)])
        press(page, ".answer.no" if name in of.misplaced(group) else ".answer.yes")
    page.wait(f"{at} === '31 of 50' && document.querySelector('.large')?.naturalWidth > 0 && {READY}")


def readme_picture(studio: Studio) -> Pictures:
    """A page in four parts: the folder, the groups, a correction in the explorer, the folders that are exported."""
    page, of = studio.page, photos(studio, "few", FEW, 12, seed=6)  # a draw with two photos in the wrong group
    wrong = of.misplaced(of.most_mixed)
    right = of.truth[wrong[0]]
    home = next(group for group in range(len(FEW)) if of.kinds(group)[0][0] == right)

    def strip(members: NDArray[np.bool_]) -> list[str]:
        """Four images of a group: typical ones, and last those that are moved."""
        names = [of.labels.path[row] for row in np.argsort(of.labels.prototype_rank) if members[row]]
        moved = [name for name in names if name in wrong]
        return [*[name for name in names if name not in wrong][: 4 - len(moved)], *moved]

    with explorer(studio, of.run) as copy:
        accept_names(page)
        page.resize(width=424, height=700, density=2)
        go(page, f"images?group={of.most_mixed}&sort=doubt", until=".item")
        for name in wrong:
            press(page, f".item[title='{name}']")
        left, top, _, bottom = box(page, ".item[data-place='0']")
        shown(page, [left - 10, top - 4, left + 262, bottom]).save(copy / "selected.png")
        page.resize(width=330, height=700, density=2)
        press(page, "#selection button")
        page.type(right[:2])
        page.wait(READY)
        shown(page, box(page, "dialog.choose")).save(copy / "dialog.png")
        press(page, f"#choices [data-number='{home}']")
        page.wait("document.getElementById('selection').hidden")
        spice("export", copy, copy / "exported", "--as", "folders")
        after = open_result(copy).groups
        templates = Environment(loader=FileSystemLoader(ROOT / "scripts"), undefined=StrictUndefined, autoescape=True)
        html = templates.get_template("from-folder-to-export.html").render(
            folder=of.folder.as_uri(),
            photos=sorted(of.truth),
            wrong=wrong,
            groups=[
                (group.name, group.chance, strip(of.labels.cluster == group.cluster))
                for group in summarize(open_result(of.run)).clusters
            ],
            correction=copy.as_uri(),
            exported=[
                (name, len([*(copy / "exported" / name).rglob("*.jpg")]), strip(after.group == number))
                for number, name in after.names.items()
            ],
        )
        (copy / "picture.html").write_text(html, encoding="utf-8")
        page.open(copy / "picture.html", width=880, height=480, density=2)
        yield "from-folder-to-export", shown(page, box(page, "main"))


def report_pictures(studio: Studio) -> Pictures:
    page, folder, run, draw = studio.page, studio.work / "fruits", studio.work / "fruits.spice", random.Random(0)
    for kind in sorted((studio.data / "fruits").iterdir()):
        (folder / kind.name).mkdir(parents=True, exist_ok=True)
        for file in some(kind, 40, draw):
            shutil.copy(file, folder / kind.name)
    spice("cluster", folder, "-k", "15", "--size", "96", "--out", run)
    page.open(run / "report.html", width=WIDTH, height=820, density=DENSITY)
    yield "report-overview", shown(page)
    page.open(run / "report.html", width=400, height=844, density=DENSITY, dark=True)
    screens = []
    for place in ("#cluster-13", "#map"):
        page.run(f"{element(place)}.scrollIntoView({{behavior: 'instant'}})")
        screens.append(np.asarray(shown(page)))
    yield "report-phone", Image.fromarray(np.concatenate(screens, axis=1))


def trash_pictures(studio: Studio) -> Pictures:
    trash, run = studio.data / "trash", studio.work / "trash.spice"
    spice("cluster", trash, "-k", "6", "--out", run)
    drawings = {
        "trash-groups": ("group_sheet.py", run, "4", "2", "3"),  # the groups that docs/reliability.md describes
        "encoders": ("encoder_neighbors.py", trash, "--count", "500"),
    }
    for name, (script, *arguments) in drawings.items():
        file = studio.work / f"{name}.png"
        subprocess.run([sys.executable, ROOT / "benchmarks" / script, *arguments, "--out", file], check=True)
        yield name, Image.open(file).convert("RGB")


def figure_pictures(studio: Studio) -> Pictures:
    of = photos(studio, "many", MANY, 60, seed=0)
    truth, demo = studio.work / "truth.csv", studio.work / "demo" / "digits.spice"
    with truth.open("w", newline="") as file:
        csv.writer(file).writerows([("path", "label"), *of.truth.items()])
    run = shutil.copytree(of.run, studio.work / "evaluated.spice", dirs_exist_ok=True)
    spice("evaluate", run, "--truth", truth)
    spice("figures", run)
    spice("demo", demo.parent)
    spice("figures", demo)
    for name, folder in {"samples": run, "neighbors": run, "toy": run, "heads": demo}.items():
        yield f"figure-{name}", Image.open(folder / "figures" / f"{name}.png").convert("RGB")


PARTS: dict[str, Callable[[Studio], Pictures]] = {
    "readme": readme_picture,
    "explorer": explorer_pictures,
    "report": report_pictures,
    "trash": trash_pictures,
    "figures": figure_pictures,
}


if __name__ == "__main__":
    main()
