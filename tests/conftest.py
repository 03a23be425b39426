"""What all tests share."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from browser import COMMAND, Page, chromium
from PIL import Image, ImageDraw

# One thread: the machine is shared, and results must not depend on how many threads it has.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# No test may wait for the hub of models.
os.environ["HF_HUB_OFFLINE"] = "1"
# Tests that import ONNX Runtime before spice.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"


@pytest.fixture(scope="session", autouse=True)
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Exported networks go to a folder that ends with the tests, not to the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPICE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def set_threads() -> Iterator[Callable[[int], None]]:
    """Sets how many threads torch has, until the test ends."""
    import torch

    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def two_processes(tmp_path: Path) -> Callable[..., str]:
    """Run a script in two real processes, started by torchrun over loopback; what they print."""

    def run(script: str, *arguments: str) -> str:
        path = tmp_path / "two_processes.py"
        path.write_text(script)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(path)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [*command, *arguments], env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets beside the repository, or a skip where it is absent."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"the real data sets are not here (looked for {folder})")
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Page]:
    """A tab of a real browser, or a skip where there is none."""
    if COMMAND is None:
        pytest.skip("there is no chromium here; scripts/install-chromium.sh installs it")
    with chromium() as page:
        yield page


@pytest.fixture
def set_failed_checks(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], None]:
    """Joint training is so short in tests that its result may be good or bad: the verdict is set, not found."""
    from spice.pipeline.steps import joint
    from spice.stages.joint.refine import refine

    def set_(failed: list[str]) -> None:
        def judged(*args: object, **kwargs: object) -> object:
            return refine(*args, **kwargs)._replace(failed_checks=failed)  # type: ignore[arg-type]

        monkeypatch.setattr(joint, "refine", judged)

    return set_


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def spice(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """The command, run inside this process: importing torch for each call would take longer than all the rest."""
    from spice.cli import main

    def run(*arguments: str | Path) -> Ended:
        monkeypatch.setattr(sys, "argv", ["spice", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        return Ended(code if isinstance(code, int) else 0, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ninety-six small drawings in four class folders, which anything that sees color and form can tell apart."""
    folder = tmp_path_factory.mktemp("drawings") / "shapes"
    random = np.random.default_rng(0)
    for kind, color in {
        "disc": (200, 40, 40),
        "bars": (40, 60, 200),
        "tent": (40, 170, 60),
        "ring": (30, 30, 30),
    }.items():
        (folder / kind).mkdir(parents=True)
        for number in range(24):
            _draw(kind, color, random).save(folder / kind / f"{number}.png")
    return folder


def _draw(kind: str, color: tuple[int, int, int], random: np.random.Generator) -> Image.Image:
    background = tuple(random.integers(190, 256, size=3).tolist())
    picture = Image.new("RGB", (48, 48), background)
    draw = ImageDraw.Draw(picture)
    left, top = random.integers(2, 14, size=2).tolist()
    right, bottom = left + 30, top + 30
    fill = tuple(int(value) + int(random.integers(0, 40)) for value in color)
    if kind == "disc":
        draw.ellipse((left, top, right, bottom), fill=fill)
    elif kind == "ring":
        draw.ellipse((left, top, right, bottom), outline=fill, width=5)
    elif kind == "tent":
        draw.polygon([(left, bottom), (right, bottom), ((left + right) // 2, top)], fill=fill)
    else:
        for row in range(top, bottom, 8):
            draw.rectangle((left, row, right, row + 3), fill=fill)
    return picture
