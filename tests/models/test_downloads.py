"""A name that a run or a model holds is never looked up elsewhere; a name that the user gives is, with a word."""

import json
import logging
import shutil
import socket
import time
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from spice.errors import UserError
from spice.models.encoders import load_encoder
from spice.pipeline import cluster
from spice.presets import standard
from spice.runs import open_result
from spice.runs.artifacts import MODEL
from spice.stages.model import TrainedModel

pytest.importorskip("transformers")
NAME = "hf:nobody-at-all/no-such-model"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every host that is asked for; none answers."""
    hosts: list[object] = []

    def refuse(host: object, *_: object, **__: object) -> NoReturn:
        hosts.append(host)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", lambda _, address: refuse(address))
    monkeypatch.setattr(time, "sleep", lambda _: None)  # the hub's library waits between its attempts
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.delenv("SPICE_DOWNLOAD", raising=False)
    return hosts


def test_a_model_that_names_an_encoder_makes_no_request(tmp_path: Path, asked: list[object]) -> None:
    cluster(np.random.default_rng(0).normal(size=(40, 8)), standard(clusters=2), tmp_path / "run", page=False)
    model = Path(shutil.copytree(open_result(tmp_path / "run") / MODEL, tmp_path / "model"))
    about = json.loads((model / "model.json").read_text())
    (model / "model.json").write_text(json.dumps(about | {"encoder": NAME, "size": 32}))
    with pytest.raises(UserError, match=r"not on this machine.*are not downloaded; to allow it, set SPICE_DOWNLOAD=1"):
        TrainedModel.load(model)
    assert asked == []


@pytest.mark.parametrize("way", ["argument", "variable"])
def test_a_name_that_the_user_gives_is_looked_up_and_says_so(
    asked: list[object], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "variable":
        monkeypatch.setenv("SPICE_DOWNLOAD", "1")
    with caplog.at_level(logging.INFO, logger="spice"), pytest.raises(UserError, match="cannot be loaded"):
        load_encoder(NAME, download=way == "argument")
    assert asked
    assert f"loading {NAME}; missing files are downloaded from the Hugging Face Hub" in caplog.text
