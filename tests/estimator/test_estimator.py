"""`SPICE` as scikit-learn's users know an estimator, on whatever images they have."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score

from spice import SPICE, load
from spice.errors import UserError
from spice.runs import open_result
from spice.runs.artifacts import HEAD
from spice.settings import JointSettings, RunSettings


@pytest.fixture(scope="module")
def fitted(shapes: Path) -> SPICE:
    return SPICE(n_clusters=4, size=64).fit(shapes)


@pytest.fixture(scope="module")
def paths(shapes: Path) -> list[Path]:
    """In an order of their own."""
    found = sorted(shapes.rglob("*.png"))
    return [found[number] for number in np.random.default_rng(3).permutation(len(found))]


def test_a_fitted_model_has_an_answer_for_every_image(fitted: SPICE, shapes: Path) -> None:
    assert fitted.labels_.shape == (96,)
    assert fitted.probabilities_.shape == (96, 4)
    assert fitted.reliability_.shape == fitted.reliable_.shape == (96,)
    np.testing.assert_allclose(fitted.probabilities_.sum(axis=1), 1.0, rtol=1e-5)
    np.testing.assert_array_equal(fitted.labels_, fitted.probabilities_.argmax(axis=1))
    np.testing.assert_array_equal(fitted.reliable_, fitted.reliability_ > 0.95)
    assert sorted(fitted.paths_) == sorted(str(path.relative_to(shapes)) for path in shapes.rglob("*.png"))
    truth = [Path(path).parent.name for path in fitted.paths_]
    assert adjusted_rand_score(truth, fitted.labels_) > 0.9


def test_every_kind_of_input_gives_the_same_groups_in_its_own_order(fitted: SPICE, paths: list[Path]) -> None:
    expected = dict(zip(fitted.paths_, fitted.labels_, strict=True))
    wanted = [expected[f"{path.parent.name}/{path.name}"] for path in paths]
    np.testing.assert_array_equal(SPICE(4, size=64).fit_predict(paths), wanted)
    np.testing.assert_array_equal(fitted.predict(paths), wanted)
    pictures = [Image.open(path) for path in paths]
    np.testing.assert_array_equal(fitted.predict(pictures), wanted)
    np.testing.assert_array_equal(fitted.predict(np.stack([np.asarray(picture) for picture in pictures])), wanted)


def test_an_image_that_cannot_be_read_has_the_label_minus_one(fitted: SPICE, paths: list[Path], tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"no image")
    found = fitted.predict([paths[0], tmp_path / "broken.png", paths[1]])
    assert found[1] == -1
    assert found[0] >= 0
    assert found[2] >= 0
    assert np.isnan(fitted.predict_proba([paths[0], tmp_path / "broken.png"])[1]).all()
    whole = fitted.assess([paths[0], tmp_path / "broken.png"])
    assert whole.paths == [str(paths[0])]
    assert [problem.path for problem in whole.problems] == [str(tmp_path / "broken.png")]


def test_what_was_never_seen_is_said_to_be_unlike(fitted: SPICE, paths: list[Path]) -> None:
    assert fitted.assess(paths).predictions.unlike.mean() < 0.05
    noise = np.random.default_rng(0).integers(0, 256, (10, 48, 48, 3), dtype=np.uint8)
    assert fitted.assess(noise).predictions.unlike.all()


PREDICT = """
import sys
import numpy as np
import spice
np.save(sys.argv[3], spice.load(sys.argv[1]).predict_proba(sys.argv[2]))
"""


def test_a_saved_model_predicts_the_same_in_a_new_process(fitted: SPICE, shapes: Path, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    arguments = [str(tmp_path / "model"), str(shapes), str(tmp_path / "found.npy")]
    subprocess.run([sys.executable, "-c", PREDICT, *arguments], check=True)
    found, expected = np.load(tmp_path / "found.npy"), fitted.predict_proba(shapes)
    assert (found.argmax(axis=1) == expected.argmax(axis=1)).all()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)  # rounding depends on the process


def test_a_run_folder_is_kept_and_gone_on_with(shapes: Path, tmp_path: Path, fitted: SPICE) -> None:
    model = SPICE(4, size=64, run_folder=tmp_path / "run")
    model.fit(shapes)
    head = open_result(tmp_path / "run") / HEAD
    before = head.stat().st_mtime_ns
    model.fit(shapes)
    assert head.stat().st_mtime_ns == before
    np.testing.assert_array_equal(load(tmp_path / "run" / "model").predict_proba(shapes), fitted.predict_proba(shapes))


def test_another_number_of_clusters_is_kept_beside_the_first(shapes: Path, tmp_path: Path) -> None:
    three = SPICE(3, size=64, run_folder=tmp_path / "run").fit(shapes)
    SPICE(4, size=64, run_folder=tmp_path / "run").fit(shapes)
    assert len(open_result(tmp_path / "run").manifest.results) == 2
    again = SPICE(3, size=64, run_folder=tmp_path / "run").fit(shapes)
    np.testing.assert_array_equal(again.labels_, three.labels_)


def test_parameters_are_read_set_and_cloned() -> None:
    model = SPICE(n_clusters=5, encoder="onnx:a.onnx", size=96, random_state=7)
    assert model.get_params()["encoder"] == "onnx:a.onnx"
    copy = clone(model)
    assert copy is not model
    assert copy.get_params() == model.get_params()
    assert copy.set_params(n_clusters=3).n_clusters == 3


@pytest.mark.slow
def test_a_model_is_refined_when_asked(
    shapes: Path, monkeypatch: pytest.MonkeyPatch, set_failed_checks: Callable[[list[str]], None]
) -> None:
    set_failed_checks([])
    few = JointSettings(steps=2, labeled=8, unlabeled=8, ema=None, learning_rate=1e-4, trained=0.2)
    monkeypatch.setattr("spice.presets.joint_on_cpu", lambda **_: few)
    model = SPICE(4, size=32, refine=True, flip=False).fit(shapes)
    plain = SPICE(4, size=32, flip=False).fit(shapes)
    assert model.model_.encoder.name == plain.model_.encoder.name
    assert not np.array_equal(model.probabilities_, plain.probabilities_), "the encoder has learned"
    np.testing.assert_array_equal(model.predict(shapes), model.labels_)
    with pytest.raises(UserError, match="feature vectors cannot be refined"):
        SPICE(2, refine=True).fit(np.random.default_rng(0).normal(size=(20, 4)))


def test_a_model_that_was_not_fitted_says_so() -> None:
    with pytest.raises(NotFittedError):
        SPICE().predict("photos")
    with pytest.raises(NotFittedError):
        SPICE().save("model")


def blobs(images: int = 120, *, seed: int = 0) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.float64]], list[int]]:
    random = np.random.default_rng(seed)
    truth = np.arange(images) % 3
    return np.eye(3, 10)[truth] * 3 + 0.3 * random.standard_normal((images, 10)) + 1.0, truth.tolist()


def test_features_are_grouped_without_images(tmp_path: Path) -> None:
    features, truth = blobs()
    model = SPICE(n_clusters=3).fit(features)
    assert adjusted_rand_score(truth, model.labels_) == 1.0
    assert model.reliable_.mean() > 0.9
    other, other_truth = blobs(30, seed=1)
    assert adjusted_rand_score(other_truth, model.predict(other)) == 1.0
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(other), model.predict_proba(other))
    with pytest.raises(UserError, match="trained on feature vectors"):
        model.predict(np.zeros((2, 8, 8, 3), dtype=np.uint8))


def test_mistakes_are_told_in_words(shapes: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown encoder 'vgg'"):
        SPICE(4, encoder="vgg").fit(shapes)
    with pytest.raises(UserError, match="no file or folder"):
        SPICE(4).fit(tmp_path / "nowhere")
    shutil.copytree(shapes / "disc", tmp_path / "few")
    with pytest.raises(UserError, match="24 images allow at most 12 groups, got 30"):
        SPICE(30, size=64).fit(tmp_path / "few")
    for number in (0, 1, -3):
        with pytest.raises(UserError, match=f"need at least 2 groups, got {number}"):
            SPICE(number).fit(shapes)
    for strange in (2.5, "4", (2,), (2, 4, 5), (2, "4")):
        with pytest.raises(UserError, match=r"n_clusters takes a number such as 10 or a range such as \(5, 40\); got"):
            SPICE(strange).fit(shapes)  # type: ignore[arg-type]


def test_a_number_of_clusters_may_come_from_numpy_or_a_list() -> None:
    vectors, _ = blobs()
    assert SPICE(np.int64(3)).fit(vectors).n_clusters_ == 3  # type: ignore[arg-type]
    assert SPICE([2, 5]).fit(vectors).n_clusters_ == SPICE((2, 5)).fit(vectors).n_clusters_ == 3  # type: ignore[arg-type]


def test_a_model_of_images_takes_vectors_of_its_encoder_alone(fitted: SPICE, paths: list[Path]) -> None:
    vectors, order, _ = fitted._features(paths)
    np.testing.assert_array_equal(fitted.predict(vectors.numpy())[order.rows], fitted.predict(paths))
    with pytest.raises(ValueError, match="X has 16 features, but SPICE is expecting 1280"):
        fitted.predict(np.ones((3, 16)))


def test_without_a_number_of_clusters_it_is_found_unless_there_are_too_few_images() -> None:
    with pytest.raises(UserError, match="8 images are too few to find the number of groups; set it with -k"):
        SPICE().fit(np.eye(8, 4, dtype=np.float32))
    model = SPICE().fit(blobs()[0])
    assert model.n_clusters is None
    assert model.n_clusters_ == len(np.unique(model.labels_)) == 3
    assert 3 in model.plausible_n_clusters_
    assert SPICE(4).fit(blobs()[0]).plausible_n_clusters_ == [4]


def test_without_a_number_of_clusters_a_preset_of_the_paper_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stop(Exception):  # noqa: N818 - not an error
        pass

    def stop(_: object, settings: RunSettings, *__: object, **___: object) -> None:
        seen.append(settings.heads.clusters)
        raise Stop

    seen: list[int] = []
    monkeypatch.setattr("spice.estimator.cluster", stop)
    for model in (SPICE(preset="paper:stl10"), SPICE(preset="paper:cifar100-20"), SPICE(7, preset="paper:stl10")):
        with pytest.raises(Stop):
            model.fit("photos")
    assert seen == [10, 20, 7]
