"""The command, run inside this process: importing torch for each call would take longer than all the rest."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from spice.cli import main


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


Spice = Callable[..., Ended]


@pytest.fixture
def spice(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Spice:
    def run(*arguments: str | Path) -> Ended:
        monkeypatch.setattr(sys, "argv", ["spice", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        return Ended(code if isinstance(code, int) else 0, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def session_run(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the drawings."""
    from spice.pipeline import cluster
    from spice.presets import standard

    out = tmp_path_factory.mktemp("cli") / "shapes.spice"
    cluster(shapes, standard(clusters=4, size=64), out)
    return out
