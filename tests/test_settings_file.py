"""Every setting can be printed, changed in a file, and given back."""

import re
import tomllib
from pathlib import Path

import pytest

from spice.errors import UserError
from spice.presets import joint_on_cpu, paper, preset, standard
from spice.settings import FeatureSettings, RunSettings
from spice.settings_file import apply_changes, read_changes, requested_settings, to_toml


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mine.toml"


@pytest.mark.parametrize("settings", [standard(clusters=5), standard(clusters=5, refine=True), paper("stl10")])
def test_printed_settings_are_read_back_the_same(settings: RunSettings, file: Path) -> None:
    file.write_text(to_toml(settings.model_dump(mode="json")))
    assert apply_changes(settings, read_changes(file), path=file) == settings


def test_every_printed_setting_has_a_description() -> None:
    lines = to_toml(paper("stl10").model_dump(mode="json")).splitlines()
    settings = [(above, line) for above, line in zip(["", *lines], lines, strict=False) if re.match(r"\w+ = |\[", line)]
    assert len(settings) > 90
    assert [line for above, line in settings if not above.startswith("# ")] == []
    assert "# Mirror images at random. Set it to false for digits, scans and text.\nflip = true" in "\n".join(lines)


def test_a_file_changes_what_it_names_and_nothing_else(file: Path) -> None:
    file.write_text('[heads]\nloss = "temperature"\ntemperature = 0.5\n')
    usual = standard(clusters=5)
    changed = requested_settings("standard", file, clusters=5)
    assert (changed.heads.loss, changed.heads.temperature) == ("temperature", 0.5)
    heads = changed.heads.model_copy(update={"loss": usual.heads.loss, "temperature": usual.heads.temperature})
    assert changed.model_copy(update={"heads": heads}) == usual


def test_options_override_the_file_and_the_file_overrides_the_preset(file: Path) -> None:
    file.write_text('seed = 3\nsize = 96\nencoder = "scratch"\n[heads]\nclusters = 7\n[views.augment]\nflip = false\n')
    from_file = requested_settings("standard", file)
    assert (from_file.seed, from_file.size, from_file.encoder, from_file.heads.clusters) == (3, 96, "scratch", 7)
    assert not from_file.views.augment.flip
    explicit = requested_settings("standard", file, clusters=4, encoder="lite0", size=64, seed=1, flip=True)
    assert (explicit.seed, explicit.size, explicit.encoder, explicit.heads.clusters) == (1, 64, "lite0", 4)
    assert explicit.views.augment.flip


def test_none_is_written_as_a_word(file: Path) -> None:
    file.write_text('[heads]\ncomponents = "none"\n')
    assert requested_settings("standard", file, clusters=5).heads.components is None
    file.write_text('joint = "none"\n')
    assert requested_settings("standard", file, clusters=5).joint is None
    assert requested_settings("standard", file, clusters=5, refine=True).joint is not None


def test_a_table_for_joint_training_asks_for_it(file: Path) -> None:
    file.write_text('[joint]\nalgorithm = "freematch"\n')
    joint = requested_settings("standard", file, clusters=4).joint
    assert joint == joint_on_cpu(pretrained=True).model_copy(update={"algorithm": "freematch"})


def test_changes_of_stage_1_wait_for_the_images(file: Path) -> None:
    file.write_text('[features]\nmethod = "byol"\n')
    settings = requested_settings("standard", file, clusters=4, encoder="scratch")
    assert settings.features is None
    assert settings.features_changes == {"method": "byol"}
    whole = requested_settings("paper:stl10", file)
    assert whole.features == FeatureSettings.model_validate(
        paper("stl10").features.model_dump() | {"method": "byol"}  # type: ignore[union-attr]
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[heads]\nclustres = 3\n", r"unknown setting heads\.clustres; did you mean heads\.clusters\?"),
        ("encodr = 'lite0'\n", r"unknown setting encodr; did you mean encoder\?"),
        (
            "[joint.augment]\nflipp = true\n",
            r"unknown setting joint\.augment\.flipp; did you mean joint\.augment\.flip\?",
        ),
        ("[heads]\nlearning_rate = -1\n", r"heads\.learning_rate = -1: input should be greater than 0"),
        ("[features]\nepochs = 'many'\n", r"features\.epochs = 'many': input should be a valid integer"),
        ("[heads]\nclusters = 'ten'\n", r"heads\.clusters = 'ten': input should be a valid integer"),
        ("[heads]\nclusters = -3\n", r"heads\.clusters = -3: input should be greater than 0"),
        ("encoder = 5\n", r"encoder = 5: input should be a valid string"),
        ("heads = 5\n", r"heads = 5: expected a table, \[heads\]"),
        ("joint = true\n", r"joint = True: expected a table, \[joint\]"),
        ("features = 'x'\n", r"features = 'x': expected a table, \[features\]"),
        ("[heads]\nsizes = ['a']\n", r"heads\.sizes = \['a'\]: input should be 'even', 'nearest' or 'found'"),
        ("[heads]\nsizes = [2, 1]\n", r"mine\.toml: heads: shares must sum to 1, got 3$"),
        ("[how_many]\nleast = 10\nmost = 5\n", r"how_many: least must not be above most, got 10 and 5"),
        ("[features]\nmomentum = 1.5\n", r"features\.momentum = 1\.5: input should be less than 1"),
        ("[features]\nsgd_momentum = -1\n", r"features\.sgd_momentum = -1: input should be greater than or equal to 0"),
        (
            "[features.augment]\ncrop_scale = [0.5, 0.2]\n",
            r"crop_scale.*: need two shares, 0 < smallest <= largest <= 1, got 0\.5 and 0\.2",
        ),
        ("[heads\n", "is not valid TOML"),
    ],
)
def test_mistakes_name_the_setting_and_the_nearest_known_one(file: Path, text: str, words: str) -> None:
    file.write_text(text)
    with pytest.raises(UserError, match=words):
        requested_settings("standard", file)


@pytest.mark.parametrize("clusters", ["'many'", "[3, 4]", "2.5", "-1"])
def test_a_wrong_number_of_groups_in_a_file_is_one_line(file: Path, clusters: str) -> None:
    file.write_text(f"[heads]\nclusters = {clusters}\n")
    with pytest.raises(UserError, match=r"mine\.toml: heads\.clusters = .*: input should be"):
        requested_settings("standard", file)


def test_a_missing_file_is_one_line(file: Path) -> None:
    with pytest.raises(UserError, match="cannot read"):
        requested_settings("standard", file, clusters=3)


def test_every_setting_of_the_methods_can_be_reached(file: Path) -> None:
    """BYOL, FreeMatch, the authors' rule, sub-batches, half precision, a random start: by a file, from any command."""
    file.write_text(
        '[features]\nmethod = "byol"\n[joint]\nalgorithm = "freematch"\ninit = "scratch"\n'
        '[reliability]\nrule = "authors"\n[heads]\nsub_batch = 128\nrepeats = 8\n[views]\nprecision = "float16"\n'
    )
    settings = requested_settings("paper:cifar10", file)
    assert settings.features is not None
    assert settings.joint is not None
    found = tomllib.loads(to_toml(settings.model_dump(mode="json")))
    assert found["features"]["method"] == "byol"
    assert (found["joint"]["algorithm"], found["joint"]["init"]) == ("freematch", "scratch")
    assert (found["reliability"]["rule"], found["heads"]["sub_batch"]) == ("authors", 128)
    assert found["views"]["precision"] == "float16"
    assert preset("paper:cifar10").views.precision == "float32"
