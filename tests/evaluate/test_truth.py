"""True labels from folders and from tables, and what is said where there are none."""

from pathlib import Path

import pytest

from spice.errors import UserError
from spice.evaluate import from_csv, from_folders

PATHS = ["train/dog/1.jpg", "train/cat/2.jpg", "test/dog/1.jpg"]


def table(folder: Path, text: str) -> Path:
    file = folder / "truth.csv"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_folder_an_image_lies_in_is_its_class() -> None:
    positions, labels, classes = from_folders(PATHS)
    assert (positions.tolist(), labels.tolist(), classes) == ([0, 1, 2], [1, 0, 1], ("cat", "dog"))


def test_a_name_that_is_not_utf_8_is_no_folder() -> None:
    assert from_folders(["dog/caf\\xe9.jpg", "./cat//2.jpg"]).classes == ("cat", "dog")


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        (["dog/1.jpg", "2.jpg"], r"1 image is not in a class folder, such as 2\.jpg; give the labels as a CSV"),
        (["dog/1.jpg", "./2.jpg", "3.jpg"], "2 images are not in a class folder"),
        (["dog/1.jpg", "dog/2.jpg"], "all images are in one folder, dog: need at least two class folders"),
        ([], "there are no images"),
    ],
)
def test_folders_that_are_no_classes_are_refused_in_words(paths: list[str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        from_folders(paths)


def test_a_table_names_the_class_of_some_images(tmp_path: Path) -> None:
    file = table(
        tmp_path, '\ufefflabel,path,note\nZebra,./test//dog/1.jpg,\n"a, b",train\\dog\\1.jpg,x\nZebra,elsewhere.jpg,\n'
    )
    positions, labels, classes = from_csv(file, PATHS)
    assert (positions.tolist(), labels.tolist(), classes) == ([0, 2], [1, 0], ("Zebra", "a, b"))


def test_the_same_row_twice_is_no_contradiction(tmp_path: Path) -> None:
    file = table(tmp_path, "path,label\ntrain/dog/1.jpg,dog\ntrain/dog/1.jpg,dog\n")
    assert from_csv(file, PATHS).classes == ("dog",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must name the columns path and label; found an empty file"),
        ("path,class\na,b\n", "must name the columns path and label; found path, class"),
        (
            "path,label\nx.jpg,dog\n",
            "has no label for any of these images; it lists x.jpg, the images are train/dog/1.jpg",
        ),
        ("path,label\n", "has no label for any of these images; it lists nothing"),
        ("path,label\na,b\nc\n", "line 3: path 'c', label None; both are required"),
        ("path,label\n,b\n", "line 2: path '', label 'b'; both are required"),
        ("path,label\na,b\n./a,c\n", "line 3: a is labeled c here and b above; keep only one"),
    ],
)
def test_a_table_that_does_not_serve_is_refused_in_words(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        from_csv(table(tmp_path, text), PATHS)


def test_a_file_that_cannot_be_read_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read labels from .*none\.csv"):
        from_csv(tmp_path / "none.csv", PATHS)
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00path,label\n")
    with pytest.raises(UserError, match="cannot read labels from"):
        from_csv(tmp_path / "binary.csv", PATHS)
