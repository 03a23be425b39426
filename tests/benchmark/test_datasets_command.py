"""The command `spice datasets`, as a user meets it."""

import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from spice.benchmark.datasets import CATALOG
from spice.cli import main


@pytest.fixture(autouse=True)
def _root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPICE_DATA", str(tmp_path / "data"))


def spice(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    monkeypatch.setattr(sys, "argv", ["spice", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.fixture
def fruits(tmp_path: Path) -> Path:
    """One image of each kind of fruit, in an archive."""
    archive = tmp_path / "fruits.tgz"
    with tarfile.open(archive, "w:gz") as opened:
        for name in CATALOG["fruits-15"].classes:
            (tmp_path / "loose" / name).mkdir(parents=True)
            Image.fromarray(np.zeros((4, 4, 3), dtype=np.uint8)).save(tmp_path / "loose" / name / "0.png")
        opened.add(tmp_path / "loose", "Fruits")
    return archive


def test_the_list_says_what_there_is_and_what_is_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, fruits: Path
) -> None:
    assert spice(monkeypatch, "datasets") == 0
    before = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in before[1 : 1 + len(CATALOG)]] == list(CATALOG)
    assert "2,640 MB   -" in before[1]
    assert spice(monkeypatch, "datasets", "get", "fruits-15", "--from", fruits) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Fruits-360, 15 kinds: 15 train images in 15 classes",
        f"folder     {tmp_path / 'data' / 'fruits-15'}",
        "note       the published set has 3,000 train images, so scores are not comparable",
    ]
    assert spice(monkeypatch, "datasets") == 0
    assert str(tmp_path / "data" / "fruits-15") in capsys.readouterr().out


def test_a_data_set_goes_where_it_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path, fruits: Path
) -> None:
    assert spice(monkeypatch, "datasets", "get", "fruits-15", "--from", fruits, "--to", tmp_path / "disk") == 0
    assert (tmp_path / "disk" / "fruits-15" / "Fruits" / "kiwi" / "0.png").is_file()
    assert not (tmp_path / "data").exists()
    assert "unpacking fruits.tgz" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("get cifar11", "unknown data set cifar11; choose one of stl10, cifar10,"),
        ("get imagenet-dog", "ImageNet-Dogs-15 cannot be downloaded: ask for ImageNet"),
        ("get cifar10 --from nowhere.tar", "there is no file or folder nowhere.tar"),
    ],
)
def test_mistakes_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: str, words: str
) -> None:
    assert spice(monkeypatch, "datasets", *arguments.split()) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"spice: {words}")
    assert len(said.splitlines()) == 1


def test_ctrl_c_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fruits: Path
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("spice.benchmark.datasets.shelf.unpack", stopped)
    assert spice(monkeypatch, "datasets", "get", "fruits-15", "--from", fruits) == 130
    assert "the partial download is kept. Run the same command again" in capsys.readouterr().err


def test_help_has_examples_and_nothing_here_needs_torch() -> None:
    code = (
        "import sys; from spice.cli import main\n"
        "sys.argv = ['spice', 'datasets', *{arguments}]\n"
        "try: main()\n"
        "finally: print([name for name in ('torch', 'sklearn', 'numpy') if name in sys.modules], file=sys.stderr)"
    )
    for arguments, imported in (["get", "--help"], "[]"), ([], "['sklearn', 'numpy']"):
        command = [sys.executable, "-c", code.replace("{arguments}", repr(arguments))]
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
        assert ended.stderr.strip() == imported
        assert not arguments or "spice datasets get cifar10" in ended.stdout.split("Examples")[1]
