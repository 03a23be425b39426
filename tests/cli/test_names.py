"""Names that other programs stumble over: outside ASCII, not UTF-8, as long as can be, with line ends."""

import csv
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spice.errors import UserError
from spice.files import MAX_NAME, shortened
from spice.pipeline import cluster
from spice.presets import standard
from spice.tables import write_table

Spice = Callable[..., Any]


def test_a_table_for_the_next_program_is_utf_8_whatever_the_locale(
    session_run: Path, shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spice.cli import main

    named = tmp_path / "café 中.png"
    named.write_bytes((shapes / "disc" / "0.png").read_bytes())
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="ascii"))
    monkeypatch.setattr(sys, "argv", ["spice", "predict", str(session_run), str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main()
    sys.stdout.flush()
    assert ended.value.code == 0
    assert out.getvalue().decode().splitlines()[1].startswith("café 中.png,")


@pytest.mark.parametrize("name", ["cr\rname.png", "lf\nname.png", "crlf\r\nname.png", '"quoted", and more.png'])
def test_csv_readers_get_every_name_back(tmp_path: Path, name: str) -> None:
    write_table(tmp_path / "labels.csv", {"path": [name, "plain.png"]})
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8") as file:
        assert [row["path"] for row in csv.DictReader(file)] == [name, "plain.png"]


def test_a_folder_whose_name_is_not_utf_8_is_refused_before_anything_is_written(
    spice: Spice, shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    odd = Path(os.fsdecode(b"caf\xe9"))
    Path(shapes.parent / odd).symlink_to(shapes)
    for arguments in ((shapes.parent / odd, "-k", "4"), (shapes, "-k", "4", "--out", odd)):
        ended = spice("cluster", *arguments)
        assert ended.code == 2
        assert ended.err.startswith("spice: ")
        assert ended.err.endswith(" is not a valid UTF-8 name; rename it (or set PYTHONUTF8=1 if it is)\n")
    with pytest.raises(UserError, match="not a valid UTF-8 name"):
        cluster(shapes.parent / odd, standard(clusters=4, size=64), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x" * 300 + ".png", "é" * 200 + ".jpeg", "short.png", "no ending" * 40])
def test_a_name_is_cut_to_what_a_file_system_takes_and_keeps_its_ending(name: str) -> None:
    for mark in ("", "-12"):
        cut = shortened(name, mark)
        assert len(os.fsencode(cut)) <= MAX_NAME
        assert cut.endswith(mark + Path(name).suffix)
    assert shortened("short.png", "-2") == "short-2.png"


@pytest.mark.parametrize("run", ["", ".", "/", ".."])
def test_a_place_without_a_name_is_no_run(
    spice: Callable[..., Any], run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    ended = spice("verify", run)
    assert ended.code == 2
    assert "is not a run folder" in ended.err
    assert ended.err.count("\n") == 1
