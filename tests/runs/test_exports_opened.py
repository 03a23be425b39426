"""Every export, opened by the program it is for, or by the library that this program reads it with.

They are too many packages for the environment of the tests: `make tools` installs them in one of their own, .tools.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spice.runs.export import Images, Shape, export

TOOLS = Path(__file__).parents[2] / ".tools" / "bin" / "python"
NAME = '<cats> & "co"'  # of group 0


@pytest.fixture
def exported(edited: Images, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    shape: Shape = request.param
    return export(edited, tmp_path / "out", shape=shape)


def asked(package: str, script: str, *arguments: Path | str) -> Any:
    """What a script prints as JSON, in an environment that has the package."""
    python = TOOLS if TOOLS.exists() else Path(sys.executable)
    if subprocess.run([python, "-c", f"import {package}"], capture_output=True, check=False).returncode:
        pytest.skip(f"{package} is not installed (make tools)")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(python), "-c", script, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


FIFTYONE = """
import json, os, sys
os.environ["FIFTYONE_DATABASE_DIR"], os.environ["FIFTYONE_DO_NOT_TRACK"] = sys.argv[2], "1"
import fiftyone as fo
kind = fo.types.FiftyOneImageClassificationDataset
data = fo.Dataset.from_dir(dataset_dir=sys.argv[1], dataset_type=kind, label_field="group")
data.compute_metadata()
fields = ("label", "confidence", "path", "group", "by_person", "reliable")
rows = [[sample.metadata.width, *(sample.group[field] for field in fields)] for sample in data]
print(json.dumps([rows, data.count_values("group.label"), [os.path.realpath(sample.filepath) for sample in data]]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("exported", ["fiftyone"], indirect=True)
def test_fiftyone_opens_images_with_groups_and_chances(exported: Path, photos: list[Path], tmp_path: Path) -> None:
    rows, counts, files = asked("fiftyone", FIFTYONE, exported, tmp_path / "db")
    assert files == [str(photo) for photo in photos]
    assert counts == {NAME: 4, "group_02": 2}
    assert rows[0] == [4, NAME, 0.9, "cats/a.png", 0, False, True]
    assert rows[3] == [4, NAME, 0.5, 'with "quotes".png', 0, True, False]


@pytest.mark.parametrize("exported", ["imagefolder"], indirect=True)
def test_hugging_face_datasets_reads_images_and_groups(exported: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="Hugging Face datasets is not installed")
    found = datasets.load_dataset(
        "imagefolder", data_dir=str(exported), split="train", cache_dir=str(tmp_path / "kept")
    )
    assert sorted(found["group"]) == [0, 0, 0, 0, 2, 2]
    assert found[0]["image"].size == (4, 4)


EXIV2 = """
import json, sys
import pyexiv2
with pyexiv2.Image(sys.argv[1]) as opened:
    print(json.dumps(opened.read_xmp()["Xmp.dc.subject"]))
"""


@pytest.mark.parametrize("exported", ["xmp"], indirect=True)
def test_exiv2_the_library_of_digikam_reads_the_keywords(exported: Path) -> None:
    assert asked("pyexiv2", EXIV2, exported / "cats" / "a.png.xmp") == [NAME]


@pytest.mark.parametrize("exported", ["xmp"], indirect=True)
def test_exiftool_reads_the_keywords(exported: Path) -> None:
    exiftool = shutil.which("exiftool")
    if exiftool is None:
        pytest.skip("exiftool is not installed")
    command = [exiftool, "-json", "-validate", "-Subject", "-HierarchicalSubject", str(exported / "cats" / "a.png.xmp")]
    (found,) = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert found["Subject"] == NAME
    assert found["HierarchicalSubject"] == f"spice|{NAME}"
    assert found["Validate"] == "OK"


DATUMARO = """
import json, sys
import datumaro
found = datumaro.Dataset.import_from(sys.argv[1], "cvat")
names = [label.name for label in found.categories()[datumaro.AnnotationType.label].items]
print(json.dumps([names[item.annotations[0].label] for item in found]))
"""


@pytest.mark.parametrize("exported", ["cvat"], indirect=True)
def test_datumaro_reads_what_is_for_cvat(exported: Path, photos: list[Path]) -> None:
    (exported / "images").symlink_to(os.path.commonpath([path.parent for path in photos]))  # where CVAT has them
    found = asked("datumaro", DATUMARO, exported)
    assert sorted(found) == [NAME] * 4 + ["group_02"] * 2


LABEL_STUDIO = """
import json, pathlib, sys
from label_studio_sdk.label_interface import LabelInterface
out = pathlib.Path(sys.argv[1])
interface = LabelInterface((out / "config.xml").read_text())
interface.validate()
accepted = []
for task in json.loads((out / "tasks.json").read_text()):
    # Without predictions: for those, this method of the SDK (2.1.2) calls another one without its argument.
    accepted.append(bool(interface.validate_task({"data": task["data"]})))
    accepted.extend(bool(interface.validate_prediction(prediction)) for prediction in task["predictions"])
print(json.dumps(accepted))
"""


@pytest.mark.parametrize("exported", ["labelstudio"], indirect=True)
def test_label_studio_accepts_interface_tasks_and_predictions(exported: Path) -> None:
    assert asked("label_studio_sdk", LABEL_STUDIO, exported) == [True] * 12
