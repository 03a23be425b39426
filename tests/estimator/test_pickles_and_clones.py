"""A fitted model is an object like any other: it can be pickled, copied, cloned and searched over."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone

from spice import SPICE
from spice.models.encoders import TorchEncoder
from spice.models.frozen import Session


@pytest.fixture(scope="module")
def fitted(shapes: Path) -> SPICE:
    return SPICE(4, size=64).fit(shapes)


def test_a_fitted_model_is_copied_with_all_it_knows(fitted: SPICE, shapes: Path) -> None:
    for other in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        assert other.model_ is not fitted.model_
        np.testing.assert_array_equal(other.predict_proba(shapes), fitted.predict_proba(shapes))
        np.testing.assert_array_equal(other.labels_, fitted.labels_)
    assert not hasattr(clone(fitted), "model_")


PREDICT = "import sys, joblib, numpy; numpy.save(sys.argv[3], joblib.load(sys.argv[1]).predict(sys.argv[2]))"


def test_a_model_kept_with_joblib_predicts_in_another_process(fitted: SPICE, shapes: Path, tmp_path: Path) -> None:
    joblib.dump(fitted, tmp_path / "model.joblib")
    arguments = [str(tmp_path / "model.joblib"), str(shapes), str(tmp_path / "found.npy")]
    subprocess.run([sys.executable, "-c", PREDICT, *arguments], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "found.npy"), fitted.predict(shapes))


def test_a_model_pickled_on_a_gpu_loads_where_there_is_none(fitted: SPICE) -> None:
    encoder = fitted.model_.encoder
    assert isinstance(encoder, TorchEncoder)
    state = encoder.__getstate__() | {"device": torch.device("cuda", 7)}
    loaded = TorchEncoder.__new__(TorchEncoder)
    loaded.__setstate__(state)
    assert loaded.device == torch.device("cpu")


def test_an_open_network_file_is_opened_again(fitted: SPICE, shapes: Path, tmp_path: Path) -> None:
    encoder = fitted.model_.encoder
    assert isinstance(encoder, TorchEncoder)
    session = encoder._current_session()
    assert isinstance(session, Session)
    images = torch.zeros(1, 3, 64, 64)
    again = pickle.loads(pickle.dumps(session))
    torch.testing.assert_close(again.run(images, "features"), session.run(images, "features"))
