"""The steps of a run that train a feature model: on its own (stage 1) and together with the head (stage 3).

Both are wanted only where the user asks for them: `--encoder scratch`, `--refine`.
"""

import json
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from pydantic import JsonValue
from safetensors.torch import load_file, save
from torch import Tensor, nn

from spice.data import ImageStore
from spice.engine.run import Run
from spice.files import written_atomically
from spice.models.encoders import SCRATCH, Encoder, TorchEncoder, load_encoder, load_trained
from spice.models.heads import Head
from spice.models.weights import save_network
from spice.neighbors import nearest
from spice.presets import features_on_cpu
from spice.progress import Progress
from spice.runs import RunFolder
from spice.runs.artifacts import ENCODER, FEATURES, HEAD, REFINED
from spice.settings import FeatureSettings, JointSettings, RunSettings
from spice.stages.features.train import train_features
from spice.stages.joint.checks import DoubtfulRefinementWarning
from spice.stages.joint.given import Joined, find, join
from spice.stages.joint.refine import Answer, Refined, refine
from spice.stages.model import probabilities
from spice.stages.reliability import labels_to_learn, neighbors_to_ask

# Pixels on a side of images that a feature model is trained on, unless told otherwise: what a CPU can do in minutes.
SCRATCH_SIZE = 32

# The files of REFINED.
_ENCODER, _HEAD, _FEATURES, _STORY = "encoder.safetensors", "head.safetensors", "features.npy", "joint.json"


def feature_settings(images: ImageStore, settings: RunSettings) -> FeatureSettings:
    """Stage 1 as asked for, or as a CPU can do it in half an hour."""
    flip = settings.views.augment.flip
    return settings.features or features_on_cpu(images=len(images), size=images.size, mirror=flip)


def train_encoder(
    run: RunFolder, images: ImageStore, settings: RunSettings, unfinished: Path, *, progress: Progress
) -> dict[str, JsonValue]:
    """A feature model trained on these images and nothing else (III-A)."""
    chosen = feature_settings(images, settings)
    trained = train_features(images, chosen, Run(seed=settings.seed, folder=unfinished, progress=progress))
    save_network(run / ENCODER, trained.network, trained.card)
    return {
        "method": chosen.method,
        "network": chosen.network,
        "epochs": chosen.epochs,
        "health": str(trained.health[-1]),
        "alignment": [round(line.alignment, 4) for line in trained.health],
        "uniformity": [round(line.uniformity, 4) for line in trained.health],
    }


class Believed(NamedTuple):
    """What the answer comes from: the second stage's result, or the third's where nothing speaks against it."""

    encoder: Encoder
    head: Head
    features: Tensor  # (N, D)
    refined: bool


def train_on(
    run: RunFolder, encoder: Encoder, images: ImageStore, settings: RunSettings, unfinished: Path, *, progress: Progress
) -> dict[str, JsonValue]:
    """Encoder and head trained together on the reliable labels (III-C)."""
    assert settings.joint is not None
    known = torch.from_numpy(np.load(run / FEATURES))  # (N, D)
    head = Head.of(load_file(run / HEAD))
    answer = Answer(known, probabilities(head, known))
    asked = neighbors_to_ask(len(images), settings.heads.clusters, settings.reliability)
    labeled, names = _labels_to_learn(answer, asked, images, settings)
    if len(labeled.image) == 0:
        doubts = ["no image is reliable, so there is nothing to learn from"]
        (run / REFINED).mkdir(exist_ok=True)  # and nothing in it
        _warn_of(doubts)
        return {"doubts": list(doubts)}
    found = refine(
        images,
        encoder,
        head,
        answer,
        labeled,
        settings=settings.joint,
        neighbors=asked,
        seed=settings.seed,
        folder=unfinished,
        progress=progress,
    )
    _write(run / REFINED, found)
    if found.doubts:
        _warn_of(found.doubts)
    return {
        "labeled": len(labeled.image),
        "given": len(settings.given),
        "names": dict(names),
        "steps": len(found.history),
        "loss": found.history[-1].loss,
        "moved": int((found.answer.probs.argmax(dim=1) != answer.probs.argmax(dim=1)).sum()),
        "agreement before": found.before.agreement,
        "agreement": found.after.agreement,
        "doubts": list(found.doubts),
    }


def _labels_to_learn(answer: Answer, asked: int, images: ImageStore, settings: RunSettings) -> Joined:
    """The reliable labels, and beside them those that the user gives."""
    near = nearest(answer.features, asked).index
    labeled = labels_to_learn(answer.probs, near, settings.reliability, seed=settings.seed)
    if not settings.given:
        return Joined(labeled, {})
    given = find(settings.given, images.collection.paths)
    return join(labeled, given, answer.probs.argmax(dim=1), clusters=settings.heads.clusters)


def _warn_of(doubts: list[str]) -> None:
    warnings.warn(
        f"joint training is not believed, and the answer is that of the second stage: {'; '.join(doubts)}",
        DoubtfulRefinementWarning,
        stacklevel=3,
    )


def believed(run: RunFolder, encoder: Encoder, settings: RunSettings) -> Believed:
    """What the labels come from."""
    folder = run / REFINED
    if settings.joint is None or _doubted(folder / _STORY):
        mapped = np.load(run / FEATURES, mmap_mode="c")
        return Believed(encoder, Head.of(load_file(run / HEAD)), torch.from_numpy(mapped), refined=False)
    mapped = np.load(folder / _FEATURES, mmap_mode="c")
    head = Head.of(load_file(folder / _HEAD))
    return Believed(_refined(run, encoder, settings.joint), head, torch.from_numpy(mapped), refined=True)


def _doubted(story: Path) -> bool:
    """Whether joint training was refused, or had nothing to learn from."""
    return not story.exists() or bool(json.loads(story.read_text(encoding="utf-8"))["doubts"])


def _refined(run: RunFolder, encoder: Encoder, settings: JointSettings) -> Encoder:
    """The encoder that joint training left: a network of its own, or the one given, anew and with other weights."""
    weights = run / REFINED / _ENCODER
    if settings.network is not None:
        return load_trained(weights)
    fresh = load_trained(run / ENCODER) if encoder.name == SCRATCH else load_encoder(encoder.name, size=encoder.size)
    assert isinstance(fresh, TorchEncoder)
    fresh.module.load_state_dict(load_file(weights))
    return fresh


def _write(folder: Path, found: Refined) -> None:
    folder.mkdir(exist_ok=True)
    if found.encoder.card is not None:
        save_network(folder / _ENCODER, found.encoder.module, found.encoder.card)
    else:
        _write_weights(folder / _ENCODER, found.encoder.module)
    _write_weights(folder / _HEAD, found.head)
    with written_atomically(folder / _FEATURES) as temporary, temporary.open("wb") as file:
        np.save(file, found.answer.features.numpy())
    story = {
        "before": found.before._asdict(),
        "after": found.after._asdict(),
        "doubts": found.doubts,
        "loss": [step.loss for step in found.history],
        "taught": [step.taught for step in found.history],
    }
    with written_atomically(folder / _STORY) as temporary:
        temporary.write_text(json.dumps(story, allow_nan=False), encoding="utf-8")


def _write_weights(path: Path, module: nn.Module) -> None:
    weights = {key: value.detach().cpu().contiguous() for key, value in module.state_dict().items()}
    with written_atomically(path) as temporary:
        temporary.write_bytes(save(weights))
