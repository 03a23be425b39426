"""Cached views: equal to the encoder's output, kept through kills, computed again when anything changes."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from spice.augment import Plain, Recipe, Strong, Weak
from spice.data.images import Images
from spice.engine.run import Run
from spice.errors import UserError
from spice.models.encoders import Encoder, TorchEncoder, load_encoder
from spice.models.networks import network
from spice.randomness import generator
from spice.settings import IMAGENET, ViewSettings
from spice.stages import view_files
from spice.stages.encode import encode_plain
from spice.stages.view_files import Kind
from spice.stages.views import Views, encode_features, encode_views, open_views, perturb_features, with_fresh_views

SETTINGS = ViewSettings(weak=2, strong=1)


class Noise:
    """Random images, gray or not."""

    size = 40

    def __init__(self, images: int = 70, channels: int = 3) -> None:
        self.channels = channels
        randomness = torch.Generator().manual_seed(0)
        self.pixels = torch.randint(256, (images, channels, 40, 40), generator=randomness, dtype=torch.uint8)

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, positions: Tensor) -> Tensor:
        return self.pixels[positions]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder("lite0", size=32)


def encoded(images: Images, encoder: Encoder, settings: ViewSettings, run: Run) -> Views:
    """The images, then their views, in the folder of the run."""
    assert run.folder is not None
    features = encode_features(images, encoder, run.folder / "features.npy", run)
    return encode_views(images, features, encoder, settings, run)


def test_every_row_is_the_encoders_output_for_its_view(encoder: Encoder, tmp_path: Path) -> None:
    images = Noise()
    views = encoded(images, encoder, SETTINGS, Run(seed=5, folder=tmp_path))
    assert views.plain.shape == (70, 1280)
    assert views.weak.shape == (2, 70, 1280)
    assert views.strong.shape == (1, 70, 1280)
    made = (SETTINGS.augment, encoder.size, encoder.normalization)
    last = torch.arange(64, 70)  # the second batch
    np.testing.assert_array_equal(views.plain[64:], encoder.encode(Plain(*made)(images.take(last))))
    weak = Weak(*made)(images.take(last), generator(5, "views", "weak", 1, 1))
    np.testing.assert_array_equal(views.weak[1, 64:], encoder.encode(weak))
    strong = Strong(*made)(images.take(last), generator(5, "views", "strong", 0, 1))
    np.testing.assert_array_equal(views.take("strong", 0, last), encoder.encode(strong))
    again = open_views(tmp_path, views.plain)
    np.testing.assert_array_equal(again.strong, views.strong)
    assert sorted(path.name for path in (tmp_path / "views").iterdir()) == ["identity", "strong.npy", "weak.npy"]


def test_an_encoder_that_returns_nan_is_refused_by_name(tmp_path: Path) -> None:
    small = network("resnet10", stem="plain", width=4).eval()
    with torch.no_grad():
        for weight in small.parameters():
            weight.fill_(float("nan"))
    broken = TorchEncoder("mine.safetensors", small, IMAGENET, size=32)
    with pytest.raises(UserError, match=r"encoder mine.safetensors returns NaN or infinite features.* use another"):
        encoded(Noise(), broken, SETTINGS, Run(folder=tmp_path))
    with pytest.raises(UserError, match=r"encoder mine.safetensors returns NaN"):
        encode_plain(broken, Noise())


def test_a_fresh_view_is_new_in_every_step_and_depends_on_its_image_alone(encoder: Encoder, tmp_path: Path) -> None:
    images = Noise()
    cached = encoded(images, encoder, SETTINGS, Run(folder=tmp_path))
    views = with_fresh_views(cached, images, encoder, SETTINGS)
    some = torch.tensor([69, 3, 20, 3])
    made = (SETTINGS.augment, encoder.size, encoder.normalization)
    kinds: tuple[tuple[Kind, type[Recipe]], ...] = (("weak", Weak), ("strong", Strong))
    for kind, recipe in kinds:
        found = views.draw(kind, some, generator(0, "step", 1))
        expected = encoder.encode(recipe(*made)(images.take(some), generator(0, "step", 1), rows=some, of=70))
        torch.testing.assert_close(found, expected)
        assert torch.equal(found[1], found[3])
        torch.testing.assert_close(views.draw(kind, some[:1], generator(0, "step", 1)), found[:1])
        assert not torch.allclose(views.draw(kind, some, generator(0, "step", 2)), found)
        assert any(np.array_equal(view[3], cached.draw(kind, some, generator(0))[1]) for view in cached.all(kind))
    assert torch.equal(views.draw("plain", some, generator(0)), cached.take("plain", 0, some))


def test_fresh_views_fill_more_than_one_batch(encoder: Encoder, tmp_path: Path) -> None:
    images, every = Noise(), torch.arange(70).flip(dims=[0])
    views = with_fresh_views(encoded(images, encoder, SETTINGS, Run(folder=tmp_path)), images, encoder, SETTINGS)
    found = views.draw("weak", every, generator(0))
    for some in (slice(0, 5), slice(65, 70)):
        torch.testing.assert_close(found[some], views.draw("weak", every[some], generator(0)))


def test_batches_encoded_in_parallel_equal_those_encoded_in_sequence(encoder: Encoder, tmp_path: Path) -> None:
    images, before = Noise(200), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(encoded(images, encoder, SETTINGS, Run(folder=tmp_path / str(threads))))
    finally:
        torch.set_num_threads(before)
    for kind in ("plain", "weak", "strong"):
        np.testing.assert_array_equal(getattr(found[0], kind), getattr(found[1], kind))


def test_gray_images_are_encoded_too(encoder: Encoder, tmp_path: Path) -> None:
    views = encoded(Noise(3, channels=1), encoder, SETTINGS, Run(folder=tmp_path))
    assert np.isfinite(views.strong).all()


def test_finished_files_are_used_again_and_computed_again_when_anything_changes(
    encoder: Encoder, tmp_path: Path
) -> None:
    images = Noise(5)
    first = encoded(images, encoder, SETTINGS, Run(folder=tmp_path))
    before = {kind: np.array(getattr(first, kind)) for kind in ("plain", "weak", "strong")}
    stamp = (tmp_path / "features.npy").stat().st_mtime_ns
    encoded(images, encoder, SETTINGS, Run(folder=tmp_path))
    assert (tmp_path / "features.npy").stat().st_mtime_ns == stamp
    other = encoded(images, encoder, SETTINGS, Run(seed=1, folder=tmp_path))
    np.testing.assert_array_equal(other.plain, before["plain"])
    assert not np.array_equal(other.weak, before["weak"])
    encoded(images, load_encoder("lite0", size=40), SETTINGS, Run(seed=1, folder=tmp_path))
    assert (tmp_path / "features.npy").stat().st_mtime_ns != stamp


def test_a_stopped_run_keeps_what_it_has_encoded(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_files, "SAVE_EVERY_SECONDS", 0.0)
    images = Noise(200)

    def stops(task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:
        if task == "weak views" and done >= 64:  # after the plain images and one batch of weak views
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encoded(images, encoder, SETTINGS, Run(folder=tmp_path, progress=stops))
    taken: list[int] = []

    def counted(positions: Tensor) -> Tensor:
        taken.append(len(positions))
        return images.pixels[positions]

    monkeypatch.setattr(images, "take", counted)
    resumed = encoded(images, encoder, SETTINGS, Run(folder=tmp_path))
    assert sum(taken) == 3 * 200 - 64
    whole = encoded(Noise(200), encoder, SETTINGS, Run(folder=tmp_path / "whole"))
    for kind in ("plain", "weak", "strong"):
        np.testing.assert_array_equal(getattr(resumed, kind), getattr(whole, kind))


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is of POSIX systems")
def test_kill_9_costs_little_and_changes_nothing(tmp_path: Path) -> None:
    script = tmp_path / "work.py"
    script.write_text(WORK.format(tests=str(Path(__file__).parent), folder=str(tmp_path / "run")))
    command = [sys.executable, str(script)]
    killed = 0
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"OMP_NUM_THREADS": "1"})
        assert process.stdout is not None
        process.stdout.readline()  # a batch is marked
        time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
    assert killed >= 2
    subprocess.run(command, check=True, capture_output=True)
    features = np.random.default_rng(0).normal(size=(2_000, 256)).astype(np.float32)
    whole = perturb_features(features, SETTINGS, Run(folder=tmp_path / "whole"))
    resumed = open_views(tmp_path / "run", features)
    for kind in ("plain", "weak", "strong"):
        np.testing.assert_array_equal(getattr(resumed, kind), getattr(whole, kind))


WORK = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
import time
import numpy as np
from test_views import SETTINGS, Run, perturb_features, view_files

view_files.SAVE_EVERY_SECONDS = 0.0
def report(task, done, total, figures=None):
    print(done, flush=True)
    time.sleep(0.01)

features = np.random.default_rng(0).normal(size=(2_000, 256)).astype(np.float32)
perturb_features(features, SETTINGS, Run(folder=Path({folder!r}), progress=report))
"""


def test_views_of_features_are_noise_as_wide_as_the_datas_own(tmp_path: Path) -> None:
    features = (np.random.default_rng(0).normal(size=(3000, 4)) * [1, 10, 0, 3] + 5).astype(np.float32)
    settings = ViewSettings(weak=1, strong=1, weak_noise=0.1, strong_noise=0.5, strong_dropout=0.25)
    views = perturb_features(features, settings, Run(folder=tmp_path))
    np.testing.assert_array_equal(views.plain, features)
    np.testing.assert_allclose((views.weak[0] - features).std(axis=0), [0.1, 1.0, 0.0, 0.3], rtol=0.1)
    dropped = np.isclose(views.strong[0], features.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(dropped[:, [0, 1, 3]].mean(axis=0), 0.25, atol=0.03)
    kept = np.where(dropped, np.nan, views.strong[0] - features)
    np.testing.assert_allclose(np.nanstd(kept[:, [0, 1, 3]], axis=0), [0.5, 5.0, 1.5], rtol=0.1)


def test_half_precision_halves_the_views_and_leaves_the_features(encoder: Encoder, tmp_path: Path) -> None:
    half = SETTINGS.model_copy(update={"precision": "float16"})
    views = encoded(Noise(5), encoder, half, Run(folder=tmp_path / "half"))
    full = encoded(Noise(5), encoder, SETTINGS, Run(folder=tmp_path / "full"))
    assert (str(views.plain.dtype), str(views.weak.dtype)) == ("float32", "float16")
    some = torch.tensor([3, 1])
    assert views.take("weak", 1, some).equal(views.take("weak", 1, slice(None))[some])
    assert views.take("weak", 1, some).dtype == views.take("weak", 1, slice(1, 3)).dtype == torch.float32
    np.testing.assert_allclose(views.take("weak", 0, slice(None)), full.take("weak", 0, slice(None)), rtol=2e-3)


def test_a_full_disk_is_reported_before_work_begins(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(
        UserError, match=r"not enough disk space in .* for .* GB of features \(No space left on device\)"
    ):
        encoded(Noise(5), encoder, SETTINGS, Run(folder=tmp_path))


def test_a_sample_alone_gets_views_and_all_images_get_features(encoder: Encoder, tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"sample": 70})
    whole = encoded(Noise(200), encoder, SETTINGS, Run(folder=tmp_path / "whole"))
    views = encoded(Noise(200), encoder, settings, Run(folder=tmp_path / "some"))
    assert views.rows is not None
    assert len(views) == len(np.unique(views.rows)) == 70
    assert views.weak.shape == (2, 70, encoder.features)
    np.testing.assert_array_equal(np.load(tmp_path / "some" / "features.npy"), whole.plain)
    np.testing.assert_array_equal(views.plain, whole.plain[views.rows])
    again = encoded(Noise(200), encoder, settings, Run(seed=1, folder=tmp_path / "other"))
    assert again.rows is not None
    assert set(again.rows) != set(views.rows)


def test_the_views_of_a_sample_are_of_its_images(tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    settings = SETTINGS.model_copy(update={"sample": 100, "weak_noise": 0.0})
    views = perturb_features(features, settings, Run(folder=tmp_path))
    np.testing.assert_array_equal(views.weak[1], features[views.rows])
    assert perturb_features(features, SETTINGS, Run(folder=tmp_path / "all")).rows is None
