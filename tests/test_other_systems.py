"""Windows and macOS, as far as they can be tested on Linux: names, paths, and files that are in use."""

import ntpath
import sys
from pathlib import Path, PureWindowsPath

import pytest

from spice.data.sources import Folder, _slashes
from spice.errors import UserError
from spice.files import collision_key, portable_name, replace
from spice.runs.export import _root, folder_names
from spice.wording import quoted

NAMES = [
    "con", "NUL.txt", "aux .jpg", "com1", "LPT9.tar.gz", "COM¹", "conin$", "a:b", 'a"b', "tail.", "tail ", "a/b",
    "a\\b", "tab\there", "question?", "console", "com10", "com", "été", "plain", "..", ".hidden", "x" * 59 + ". y",
]  # fmt: skip


def refused_by_windows(name: str) -> bool:
    """What Python knows of it; `isreserved` is of 3.13."""
    if sys.version_info >= (3, 13):
        return ntpath.isreserved(name)
    bad = any(letter in '<>:"/\\|?*' or ord(letter) < 32 for letter in name) or name.endswith((".", " "))
    return bad or PureWindowsPath(name).is_reserved()


@pytest.mark.parametrize("name", NAMES)
def test_a_group_of_any_name_gets_a_folder_that_windows_accepts(name: str) -> None:
    folder = folder_names({3: name})[3]
    assert not refused_by_windows(folder)
    assert folder == PureWindowsPath(folder).name
    if len(name) <= 60 and not refused_by_windows(name) and not name.startswith("."):
        assert folder == name


def test_a_long_name_fits_into_255_bytes_whatever_its_letters() -> None:
    names = folder_names({1: "\N{BIRD}" * 200, 2: "\N{BIRD}" * 199})
    assert len(set(names.values())) == 2
    assert max(len(name.encode()) for name in names.values()) <= 255


def test_names_that_macos_takes_for_one_get_two_folders() -> None:
    composed, apart = "caf\N{LATIN SMALL LETTER E WITH ACUTE}", "cafe\N{COMBINING ACUTE ACCENT}"
    assert collision_key(composed) == collision_key(apart) == collision_key(composed.upper())
    assert len({collision_key(name) for name in folder_names({0: composed, 1: apart, 2: "CAFE\u0301"}).values()}) == 3


def test_the_number_that_tells_two_names_apart_meets_no_third_name() -> None:
    names = folder_names({0: "a_02", 1: "a", 2: "A", 3: "A_02"})
    assert len({collision_key(name) for name in names.values()}) == 4


def test_what_is_taken_out_of_an_archive_gets_a_name_without_a_colon() -> None:
    assert portable_name("IMG 10:30.jpg") == "IMG 10_30.jpg"


def test_images_on_two_drives_have_no_common_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spice.runs.export.os.path", ntpath)
    with pytest.raises(UserError, match="several drives"):
        _root([Path("C:/a/1.jpg"), Path("D:/a/2.jpg")])


def test_images_in_a_folder_are_named_alike_on_every_system(tmp_path: Path) -> None:
    assert _slashes("cats\\black\\1.jpg", "\\") == "cats/black/1.jpg"
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "a\\b.jpg").write_bytes(b"")  # here, a backslash is a letter like any other
    (entry,) = Folder(tmp_path).listing()[0]
    assert entry.name == "cats/a\\b.jpg"


@pytest.mark.parametrize("path", ["C:\\Users\\me\\photos.spice", "photos.spice", "D:/a-b=c"])
def test_a_path_of_windows_is_shown_as_it_is(path: str) -> None:
    assert quoted(path, windows=True) == path


@pytest.mark.parametrize("path", ["C:\\my photos.spice", "cats & dogs", "100%", "it's", "a(1)"])
def test_a_path_of_windows_gets_double_quotes_where_it_needs_quotes(path: str) -> None:
    assert quoted(path, windows=True) == f'"{path}"'


class Busy(type(Path())):  # type: ignore[misc]  # PosixPath or WindowsPath
    """A file that cannot take the place of another one that is being read, as on Windows, for two attempts."""

    attempts = 0

    def replace(self, target: object) -> "Busy":
        Busy.attempts += 1
        if Busy.attempts <= 2:
            raise PermissionError(13, "The process cannot access the file because it is being used by another process")
        super().replace(target)
        return self


def test_a_file_that_another_program_reads_is_replaced_a_moment_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Busy, "attempts", 0)
    old, new = tmp_path / "old", Busy(tmp_path / "new")
    old.write_text("old", encoding="utf-8")
    new.write_text("new", encoding="utf-8")
    replace(new, old, busy_seconds=5)
    assert old.read_text(encoding="utf-8") == "new"
    assert Busy.attempts == 3


def test_a_file_that_stays_in_use_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Busy, "attempts", 0)
    with pytest.raises(PermissionError):
        replace(Busy(tmp_path / "new"), tmp_path / "old", busy_seconds=0)
    assert Busy.attempts == 1
