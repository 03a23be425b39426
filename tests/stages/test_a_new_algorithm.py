"""A new algorithm for stage 3 takes one file: a class with a loss, found by its name in the settings."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spice.data.images import InMemory
from spice.engine.checkpoints import Checkpoints
from spice.engine.run import Run
from spice.errors import UserError
from spice.settings import AugmentSettings, JointSettings, Normalization
from spice.stages.joint.algorithms import Algorithm, Batch, find_algorithm, register
from spice.stages.joint.sampling import Labeled
from spice.stages.joint.train import Joint, Learner, train_jointly

# The algorithm, as in a separate file. Unlike FixMatch, it uses strong views only, and has a state.


@register("entropy")
class EntropyMinimization(Algorithm):
    """Grandvalet and Bengio (2004): minimize the entropy of predictions for unlabeled images."""

    views = ("strong",)

    def __init__(self, settings: JointSettings, clusters: int) -> None:
        super().__init__(settings, clusters)
        self.seen = torch.zeros(())

    def loss(self, batch: Batch) -> Tensor:
        labeled, unlabeled = batch.logits(batch.labeled, *batch.unlabeled)
        self.seen = self.seen + len(unlabeled)
        entropy = -(unlabeled.softmax(dim=1) * unlabeled.log_softmax(dim=1)).sum(dim=1).mean()
        return F.cross_entropy(labeled, batch.labels) + 0.1 * entropy

    def state(self) -> dict[str, Tensor]:
        return {"seen": self.seen}

    def restore_(self, state: dict[str, Tensor]) -> None:
        self.seen = state["seen"]


KIND = torch.arange(30) % 2
AUGMENT = AugmentSettings(flip=False, color=False, rotation=False, operations=1, cutout=0.1, shift=1)
SETTINGS = JointSettings(algorithm="entropy", steps=30, labeled=4, unlabeled=8, learning_rate=0.05, ema=None)


def halves() -> InMemory:
    """Images with a bright left or right half."""
    pixels = torch.randint(0, 80, (30, 1, 8, 8), generator=torch.Generator().manual_seed(0))
    for image, kind in zip(pixels, KIND.tolist(), strict=True):
        image[:, :, 4 * kind : 4 * kind + 4] += 150
    return InMemory(pixels.byte())


def train(settings: JointSettings, run: Run | None = None) -> Joint:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    gray = Normalization(mean=(0.5,), std=(0.5,))
    learner = Learner.on_images(network, 2, AUGMENT, size=8, normalization=gray)
    return train_jointly(learner, halves(), Labeled(torch.arange(4), KIND[:4]), settings, run or Run())


def test_it_trains_under_its_name() -> None:
    trained = train(SETTINGS)
    predicted = trained.network(halves().pixels.float() / 127.5 - 1).argmax(dim=1)
    assert torch.equal(predicted, KIND)
    assert trained.history[-1].loss < trained.history[0].loss


def test_it_resumes_with_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Checkpoints, "due", lambda _: True)

    def stop(task: str, done: int, total: int, figures: object = None) -> None:
        if done == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(SETTINGS, Run(0, tmp_path, progress=stop))
    assert train(SETTINGS, Run(0, tmp_path)).history == train(SETTINGS).history
    saved = Run(0, tmp_path).checkpoints(SETTINGS.model_dump(mode="json") | {"images": 30, "labels": 4}).load()
    assert saved is not None
    assert saved.state["algorithm"]["seen"] == 30 * 8


def test_an_unknown_name_is_refused_with_a_list_of_known_ones() -> None:
    words = r"unknown algorithm 'fixmatsch'; choose one of entropy, fixmatch, freematch"
    with pytest.raises(UserError, match=words):
        train(SETTINGS.model_copy(update={"algorithm": "fixmatsch"}))


def test_a_name_can_be_registered_only_once() -> None:
    with pytest.raises(ValueError, match="'fixmatch' is already registered: FixMatch"):
        register("fixmatch")(EntropyMinimization)
    assert find_algorithm("fixmatch").__name__ == "FixMatch"
