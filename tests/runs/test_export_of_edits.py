"""Exports of edited groups: names, stable class numbers, and the formats of other programs."""

import csv
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from spice.runs import Labels, Result
from spice.runs.editor import Editor
from spice.runs.edits import Merge, SetAside
from spice.runs.export import Images, Shape, export, folder_names, images_of

RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
DC = "{http://purl.org/dc/elements/1.1/}"
Written = Callable[[Shape], Path]


@pytest.fixture
def written(edited: Images, tmp_path: Path) -> Written:
    """Exports the edited groups."""
    return lambda shape: export(edited, tmp_path / shape, shape=shape)


def test_folders_are_called_by_the_names_of_groups(written: Written) -> None:
    out = written("folders")
    assert sorted(path.name for path in out.iterdir()) == ["_cats_ & _co_", "group_02"]
    assert len(list((out / "_cats_ & _co_").rglob("*.png"))) == 4


def test_an_image_that_a_person_moved_is_not_exported_as_doubtful(
    written: Written, labels: Labels, photos: list[Path]
) -> None:
    assert not labels.reliable[3]
    out = written("folders")
    assert [path.parent.name for path in out.rglob(f"*{photos[3].name}")] == ["reliable"]


@pytest.mark.parametrize("bad", ["..", "a/b", "a\\b", "con:1", " . "])
def test_no_name_of_a_group_leads_out_of_the_folder(bad: str) -> None:
    name = folder_names({0: bad})[0]
    assert Path(name).name == name
    assert name not in ("", ".", "..")


def test_two_names_that_look_alike_get_two_folders() -> None:
    assert len({name.casefold() for name in folder_names({0: "a:b", 1: "a/b", 2: "A_B"}).values()}) == 3


def test_a_class_keeps_its_number_when_another_one_is_empty(written: Written) -> None:
    out = written("imagefolder")
    with (out / "metadata.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["group"] for row in rows] == ["0", "0", "2", "0", "2", "0"]  # and not 0 and 1
    assert all((out / row["file_name"]).exists() for row in rows)
    config = (written("labelstudio") / "config.xml").read_text()
    choices = [choice.get("value") for choice in ElementTree.fromstring(config).iter("Choice")]
    assert choices == ['<cats> & "co"', "group_01", "group_02"]


def test_cvat_gets_a_tag_per_image_and_all_labels(written: Written, labels: Labels) -> None:
    root = ElementTree.parse(written("cvat") / "annotations.xml").getroot()
    assert root.findtext("version") == "1.1"
    assert [label.findtext("name") for label in root.iter("label")] == ['<cats> & "co"', "group_01", "group_02"]
    images = list(root.iter("image"))
    assert [image.get("name") for image in images] == labels.path
    assert {(image.get("width"), image.get("height")) for image in images} == {("4", "4")}
    tags = [image.find("tag") for image in images]
    assert [tag.get("source") for tag in tags if tag is not None] == ["auto", "auto", "auto", "manual", "auto", "auto"]
    assert [tag.get("label") for tag in tags if tag is not None][2] == "group_02"


def test_sidecars_have_the_name_as_keyword_and_unnamed_groups_have_none(written: Written) -> None:
    out = written("xmp")
    found = sorted(path.relative_to(out).as_posix() for path in out.rglob("*.xmp"))
    assert found == ["cats/a.png.xmp", "cats/b.png.xmp", "naïve 中.png.xmp", 'with "quotes".png.xmp']
    subject = ElementTree.parse(out / "cats" / "a.png.xmp").getroot().find(f".//{DC}subject/{RDF}Bag/{RDF}li")
    assert subject is not None
    assert subject.text == '<cats> & "co"'


def test_fiftyone_gets_number_and_name(written: Written) -> None:
    found = json.loads((written("fiftyone") / "labels.json").read_text())
    assert found["labels"]["3"]["label"] == '<cats> & "co"'
    assert found["labels"]["3"]["attributes"]["by_person"] is True
    assert found["labels"]["2"]["attributes"]["group"] == 2


def test_merged_groups_are_one_class_and_groups_set_aside_are_none(finished: Result, labels: Labels) -> None:
    editor = Editor(finished.run)
    editor.do(Merge(groups=[2, 1]))
    assert images_of(labels, editor.groups, np.arange(6), []).names == {0: "group_00", 2: "group_02"}
    after = editor.do(SetAside(group=0))
    assert images_of(labels, after, np.flatnonzero(after.shown >= 0), []).names == {2: "group_02"}
