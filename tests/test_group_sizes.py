"""`--sizes`: what a user may write, what is refused in words, and what becomes of it."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from typer.testing import CliRunner

from spice import SPICE
from spice.cli import app
from spice.errors import UserError
from spice.group_sizes import as_shares, clusters_from, read_sizes, with_sizes
from spice.presets import preset
from spice.settings import HeadSettings
from spice.settings_file import requested_settings


def test_shares_and_counts_are_read_from_words_and_files(tmp_path: Path) -> None:
    assert read_sizes("0.2,0.5, 0.3") == (0.5, 0.3, 0.2)
    assert read_sizes("300,500,200") == (0.5, 0.3, 0.2)
    (tmp_path / "sizes.txt").write_text("20\n50\n30\n")
    assert read_sizes(str(tmp_path / "sizes.txt")) == (0.5, 0.3, 0.2)
    assert sum(read_sizes("0.333,0.333,0.333")) == pytest.approx(1)
    assert read_sizes(",".join(["10"] * 100)) == (0.01,) * 100  # longer than a file name can be


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("0.5,0.3", r"shares must sum to 1, got 0\.8; give shares or counts, such as"),
        ("0.5,-0.5,1", r"must be a number above 0, got -0\.5"),
        ("3,0", "must be a number above 0, got 0"),
        ("1,nan", "must be a number above 0, got nan"),
        ("inf,1", "must be a number above 0, got inf"),
        ("7", "at least 2 groups, got 1"),
        ("0.5,half", "--sizes contains 'half', which is not a number"),
        ("sizes.txt", r"--sizes contains 'sizes\.txt', which is not a number; .* or a file"),
    ],
)
def test_what_is_no_size_is_refused_in_words(given: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        read_sizes(given)


def test_another_number_of_groups_is_refused() -> None:
    assert clusters_from((0.5, 0.5), None) == clusters_from((0.5, 0.5), 2) == 2
    with pytest.raises(UserError, match="got 2 sizes for 3 groups; leave out the number"):
        clusters_from((0.5, 0.5), 3)
    with pytest.raises(UserError, match="sizes for 3 groups"):
        SPICE(3, sizes=[0.5, 0.5]).fit(np.zeros((40, 4)))
    with pytest.raises(ValueError, match="sizes has 3 shares for 2 groups"):
        HeadSettings(clusters=2, sizes=(0.5, 0.3, 0.2))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-k", "3", "--sizes", "0.5,0.5"], "got 2 sizes for 3 groups"),
        (["-k", "2:9", "--sizes", "0.5,0.5"], "got 2 sizes for 2:9 groups"),
        (["--cut", "2", "--sizes", "0.5,0.5"], "--sizes and --cut both set the number of groups"),
    ],
)
def test_options_that_disagree_are_refused_before_anything_is_read(options: list[str], words: str) -> None:
    result = CliRunner().invoke(app, ["cluster", "no-such-folder", *options])
    assert isinstance(result.exception, UserError)
    assert words in str(result.exception)


def test_a_settings_file_may_give_sizes_and_so_the_number_of_groups(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[heads]\nsizes = [0.6, 0.4]\n")
    settings = requested_settings("standard", tmp_path / "mine.toml")
    assert settings.how_many is None
    assert (settings.heads.clusters, settings.heads.shares) == (2, (0.6, 0.4))
    (tmp_path / "mine.toml").write_text("[heads]\nsizes = [0.6, 0.3]\n")
    with pytest.raises(UserError, match=r"shares must sum to 1, got 0\.9"):
        requested_settings("standard", tmp_path / "mine.toml")


def test_a_batch_holds_ten_images_of_the_smallest_group_but_for_the_papers_batch() -> None:
    shares = as_shares([995, 5])
    assert with_sizes(preset("standard", clusters=2), shares).heads.batch == 2000
    assert with_sizes(preset("paper:cifar10", clusters=2), shares).heads.batch == 1000


def test_a_model_that_knows_the_sizes_does_not_cut_a_large_group_in_two() -> None:
    counts, random = [300, 30, 30, 30], np.random.default_rng(0)
    truth = np.repeat(range(4), counts)
    features = 3 * np.eye(12)[truth] + random.normal(scale=0.45, size=(390, 12)) + 1
    model = SPICE(sizes=counts, random_state=0).fit(features)
    assert model.probabilities_.shape == (390, 4)
    assert adjusted_rand_score(truth, model.labels_) > 0.95
    assert sorted(np.bincount(model.labels_)) == pytest.approx([30, 30, 30, 300], abs=12)
    assert model.get_params()["sizes"] == counts
