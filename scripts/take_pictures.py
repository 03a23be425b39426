"""Take the pictures of README and docs: real runs of the program on images with a free license.

    python scripts/take_pictures.py DATA [NAME ...]

DATA has the extracted collections, one folder per class: `caltech` (Caltech-101), `trash` (TrashNet) and `fruits`
(Fruits-360). NAME is a file of docs/images without its ending; by default, all are taken (about ten minutes on two
cores). Needs Chromium and the extras `figures` and `lite2`.
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
from functools import cache
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
WIDTH, HEIGHT, DENSITY = 1040, 720, 1.4  # little wider than a page of the docs, and sharp on fine screens
FEW = ("starfish", "crab", "grand_piano", "llama", "strawberry")
MANY = (
    "Leopards", "Motorbikes", "airplanes", "bonsai", "butterfly", "chandelier", "dolphin", "grand_piano", "hawksbill",
    "helicopter", "kangaroo", "ketch", "sunflower",
)  # fmt: skip
READY = "!document.querySelector('.loading') && !document.querySelector('.thumb:not(.ready)')"

Box = tuple[float, float, float, float]  # left, top, right, bottom


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
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--work", type=Path, help="keep the runs here, to take pictures again in less time")
    given = parser.parse_args()
    with TemporaryDirectory() as scratch, chromium() as page:
        studio = Studio(given.data.resolve(), (given.work or Path(scratch)).resolve(), page)
        for name in given.names or PICTURES:
            picture, file = PICTURES[name](studio), OUT / f"{name}.webp"
            picture.save(file, quality=75, method=6)
            print(f"{name}: {picture.width} x {picture.height}, {file.stat().st_size:,} bytes", flush=True)


# Runs


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


@cache
def few(studio: Studio) -> Photos:
    return photos(studio, "few", FEW, 12, seed=6)  # a draw with two photos in the wrong group


@cache
def many(studio: Studio) -> Photos:
    return photos(studio, "many", MANY, 60, seed=0)


@cache
def fruits(studio: Studio) -> Path:
    folder, run, draw = studio.work / "fruits", studio.work / "fruits.spice", random.Random(0)
    for kind in sorted((studio.data / "fruits").iterdir()):
        (folder / kind.name).mkdir(parents=True, exist_ok=True)
        for file in some(kind, 40, draw):
            shutil.copy(file, folder / kind.name)
    spice("cluster", folder, "-k", "15", "--size", "96", "--out", run)
    return run


# The browser


@contextmanager
def explorer(
    studio: Studio,
    run: Path,
    *,
    width: int = WIDTH,
    height: int = HEIGHT,
    density: float = DENSITY,
    dark: bool = False,
    accept_names: bool = True,
) -> Iterator[tuple[Page, Path]]:
    """`spice open` on a copy of the run, so that no picture shows the edits of another."""
    page = studio.page
    with TemporaryDirectory(dir=studio.work) as scratch:
        copy = shutil.copytree(run, Path(scratch) / run.name)
        with opened(copy) as served:
            page.visit(served.address, width=width, height=height, density=density, dark=dark)
            page.wait(READY)
            if accept_names:
                press(page, "#guesses button")
                page.wait("!document.querySelector('#guesses button')")
                page.run("document.getElementById('messages').replaceChildren()")
            yield page, copy


def go(page: Page, view: str, until: str) -> None:
    """Open a view, and wait until an element of it is there."""
    page.run(f"location.hash = '{view}'")
    page.wait(f"!!document.querySelector({json.dumps(until)}) && {READY}")


def press(page: Page, selector: str) -> None:
    page.run(f"document.querySelector({json.dumps(selector)}).click()")


def shown(page: Page, part: str | Box | None = None) -> Image.Image:
    """The explorer as it is, or a part of it: an element or a box."""
    page.wait(READY)
    picture = screen(page)
    if part is None:
        return picture
    density, edges = page.run("devicePixelRatio"), box(page, part) if isinstance(part, str) else part
    return picture.crop(tuple(round(edge * density) for edge in edges))


def screen(page: Page) -> Image.Image:
    page.run("new Promise(done => setTimeout(() => requestAnimationFrame(() => done(true)), 300))")  # the last paint
    with TemporaryDirectory() as scratch:
        page.screenshot(Path(scratch) / "screen.png")
        return Image.open(Path(scratch) / "screen.png").convert("RGB")


def box(page: Page, selector: str) -> Box:
    find = f"document.querySelector({json.dumps(selector)}).getBoundingClientRect()"
    left, top, right, bottom = page.run(f"(b => [b.left, b.top, b.right, b.bottom])({find})")
    return left, top, right, bottom


# Pictures of the explorer


def explorer_groups(studio: Studio) -> Image.Image:
    with explorer(studio, many(studio).run, height=800, accept_names=False) as (page, _):
        return shown(page)


def explorer_phone(studio: Studio) -> Image.Image:
    run = many(studio).run
    with explorer(studio, run, width=400, height=844, density=1.5, dark=True, accept_names=False) as (page, _):
        return shown(page)


def explorer_merge(studio: Studio) -> Image.Image:
    """More groups than classes, so some classes are in two groups."""
    run = studio.work / "merge.spice"
    spice("cluster", many(studio).folder, "-k", "20", "--out", run)
    with explorer(studio, run, height=1000) as (page, _):
        press(page, ".suggested summary")
        left, top, right, _ = box(page, "#merges")
        return shown(page, (left - 16, top - 16, right + 16, box(page, ".suggestion")[3] + 16))  # the first row


def explorer_split(studio: Studio) -> Image.Image:
    of = many(studio)
    with explorer(studio, of.run) as (page, _):
        press(page, f"#cards [data-number='{of.most_mixed}'] .actions button:nth-of-type(2)")
        page.wait("document.querySelectorAll('dialog .part').length === 2")
        return shown(page)


def explorer_images(studio: Studio) -> Image.Image:
    with doubtful_images(studio) as page:
        return shown(page)


def explorer_nearest(studio: Studio) -> Image.Image:
    with doubtful_images(studio) as page:
        press(page, ".item[aria-selected='true'] .enlarge")
        page.wait("document.querySelector('.large')?.naturalWidth > 0 && !!document.querySelector('.near .picture')")
        page.run("document.activeElement.blur()")
        return shown(page)


@contextmanager
def doubtful_images(studio: Studio) -> Iterator[Page]:
    """The images of the most mixed group; three that do not belong there are selected."""
    of = many(studio)
    with explorer(studio, of.run) as (page, _):
        go(page, f"images?group={of.most_mixed}&sort=doubt", until=".item")
        for name in of.misplaced(of.most_mixed)[:3]:
            press(page, f".item[title='{name}']")
        yield page


def explorer_map(studio: Studio) -> Image.Image:
    """A lasso around the images of the second class of the most mixed group; the mouse button is still down."""
    of = many(studio)
    rows = [of.labels.path.index(name) for name in of.misplaced(of.most_mixed)]
    with explorer(studio, of.run, height=840) as (page, _):
        go(page, "map", until="#map-lasso")
        page.wait("import('/assets/map.js').then(m => !!m.plot?.unit)")
        press(page, "#map-lasso")
        places = np.array(page.run(f"import('/assets/map.js').then(m => {rows}.map(row => m.plot.at(row)))"))
        low, high = np.quantile(places, (0.1, 0.9), axis=0)
        middle, half = (low + high) / 2 + box(page, "#map-canvas")[:2], 0.6 * (high - low) + 14
        line = [middle + half * (cos(pi * step / 30), sin(pi * step / 30)) for step in range(60)]
        for kind, (x, y) in zip(["mousePressed", *["mouseMoved"] * 59], line, strict=True):
            page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)
        return shown(page, (0, 0, WIDTH, box(page, "#map-legend")[3] + 12))


def explorer_check(studio: Studio) -> Image.Image:
    """The 31st question."""
    of = many(studio)
    with explorer(studio, of.run, height=560) as (page, _):
        page.run("location.hash = 'check'")
        for number in range(1, 31):
            page.wait(f"document.querySelector('#question .eyebrow')?.textContent === '{number} of 50'")
            name = page.run("document.querySelector('#question > .note').textContent")
            group = int(of.labels.cluster[of.labels.path.index(name)])
            press(page, ".answer.no" if name in of.misplaced(group) else ".answer.yes")
        page.wait("document.querySelector('#question .eyebrow')?.textContent === '31 of 50'")
        page.wait("document.querySelector('.large')?.naturalWidth > 0")
        return shown(page)


# The picture of the README


def from_folder_to_export(studio: Studio) -> Image.Image:
    """A page in four parts: the folder, the groups, a correction in the explorer, the folders that are exported."""
    of = few(studio)
    wrong = of.misplaced(of.most_mixed)
    right = of.truth[wrong[0]]
    home = next(group for group in range(len(FEW)) if of.kinds(group)[0][0] == right)

    def strip(members: NDArray[np.bool_]) -> list[str]:
        """Four images of a group: typical ones, and last those that are moved."""
        names = [of.labels.path[row] for row in np.argsort(of.labels.prototype_rank) if members[row]]
        moved = [name for name in names if name in wrong]
        return [*[name for name in names if name not in wrong][: 4 - len(moved)], *moved]

    with explorer(studio, of.run, width=424, height=700, density=2) as (page, copy):
        go(page, f"images?group={of.most_mixed}&sort=doubt", until=".item")
        for name in wrong:
            press(page, f".item[title='{name}']")
        left, top, _, bottom = box(page, ".item[data-place='0']")
        shown(page, (left - 10, top - 4, left + 262, bottom)).save(copy / "selected.png")
        page.resize(width=330, height=700, density=2)
        press(page, "#selection button")
        page.type(right[:2])
        shown(page, "dialog.choose").save(copy / "dialog.png")
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
        return shown(page, "main")


# Other pictures


def report_overview(studio: Studio) -> Image.Image:
    studio.page.open(fruits(studio) / "report.html", width=WIDTH, height=820, density=DENSITY)
    return screen(studio.page)


def report_phone(studio: Studio) -> Image.Image:
    """A group's card and the map, side by side."""
    studio.page.open(fruits(studio) / "report.html", width=400, height=844, density=DENSITY, dark=True)
    screens = []
    for place in ("#cluster-13", "#map"):
        studio.page.run(f"document.querySelector('{place}').scrollIntoView({{behavior: 'instant'}})")
        screens.append(np.asarray(screen(studio.page)))
    return Image.fromarray(np.concatenate(screens, axis=1))


def trash_groups(studio: Studio) -> Image.Image:
    run = studio.work / "trash.spice"
    spice("cluster", studio.data / "trash", "-k", "6", "--out", run)
    return drawn("group_sheet.py", run, "4", "2", "3")  # the groups that docs/reliability.md describes


def encoders(studio: Studio) -> Image.Image:
    return drawn("encoder_neighbors.py", studio.data / "trash", "--count", "500")


def drawn(script: str, *arguments: str | Path) -> Image.Image:
    with TemporaryDirectory() as scratch:
        sheet = Path(scratch) / "sheet.png"
        subprocess.run([sys.executable, ROOT / "benchmarks" / script, *arguments, "--out", sheet], check=True)
        return Image.open(sheet).convert("RGB")


@cache
def figures(studio: Studio) -> Path:
    """The figures of the larger run, with its true classes."""
    of, truth = many(studio), studio.work / "truth.csv"
    with truth.open("w", newline="") as file:
        csv.writer(file).writerows([("path", "label"), *of.truth.items()])
    run = shutil.copytree(of.run, studio.work / "evaluated.spice", dirs_exist_ok=True)
    spice("evaluate", run, "--truth", truth)
    spice("figures", run)
    return run / "figures"


def figure_heads(studio: Studio) -> Image.Image:
    spice("demo", studio.work / "demo")
    spice("figures", studio.work / "demo" / "digits.spice")
    return figure(studio.work / "demo" / "digits.spice" / "figures" / "heads.png")


def figure(file: Path) -> Image.Image:
    return Image.open(file).convert("RGB")


PICTURES: dict[str, Callable[[Studio], Image.Image]] = {
    "from-folder-to-export": from_folder_to_export,
    "explorer-groups": explorer_groups,
    "explorer-merge": explorer_merge,
    "explorer-split": explorer_split,
    "explorer-images": explorer_images,
    "explorer-nearest": explorer_nearest,
    "explorer-map": explorer_map,
    "explorer-check": explorer_check,
    "explorer-phone": explorer_phone,
    "report-overview": report_overview,
    "report-phone": report_phone,
    "trash-groups": trash_groups,
    "encoders": encoders,
    "figure-samples": lambda studio: figure(figures(studio) / "samples.png"),
    "figure-neighbors": lambda studio: figure(figures(studio) / "neighbors.png"),
    "figure-toy": lambda studio: figure(figures(studio) / "toy.png"),
    "figure-heads": figure_heads,
}


if __name__ == "__main__":
    main()
