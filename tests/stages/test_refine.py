"""Stage 3 from end to end: many clusters, small clusters, frozen layers, extra images, and the duration."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spice.augment import Plain
from spice.core import consistency_ratio
from spice.data.images import Concatenated, InMemory
from spice.engine.checkpoints import Checkpoints
from spice.engine.run import Run
from spice.errors import UserError
from spice.models.backbone import Backbone, Pool
from spice.models.encoders import TorchEncoder
from spice.models.heads import Head
from spice.models.networks import network
from spice.models.parts import Tail
from spice.models.precomputed import NoEncoder
from spice.neighbors import nearest
from spice.presets import authors_reliability
from spice.settings import IMAGENET, AugmentSettings, JointSettings, ReliabilitySettings
from spice.stages.encode import encode_plain, probabilities
from spice.stages.joint.refine import Refined, Stage2, estimated_seconds, refine
from spice.stages.joint.sampling import Labeled
from spice.stages.joint.train import ClusteringNetwork, Learner, train_jointly
from spice.stages.reliability import NoReliableImagesWarning, labels_to_learn, reliability_neighbors

SIZE = 12
AUGMENT = AugmentSettings(flip=False, color=False, rotation=False, shift=1, operations=1, cutout=0.1)
QUICK = JointSettings(steps=12, labeled=16, unlabeled=32, ema=None, learning_rate=0.01, augment=AUGMENT)


class Kinds(InMemory):
    """`each` images of every kind: a pattern of nine colors, with noise."""

    def __init__(self, kinds: int, each: int) -> None:
        noise = torch.Generator().manual_seed(0)
        patterns = F.interpolate(torch.rand(kinds, 3, 3, 3, generator=noise), size=SIZE, mode="bilinear")
        self.kind = torch.arange(kinds).repeat_interleave(each)
        images = patterns[self.kind] + 0.1 * torch.randn(kinds * each, 3, SIZE, SIZE, generator=noise)
        super().__init__((images.clamp(0, 1) * 255).byte())


class Patches(Backbone):
    """Encodes the nine patches separately, so that even random weights distinguish the kinds."""

    features = 9 * 16

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.second = nn.Conv2d(3, 16, 1), nn.BatchNorm2d(16), nn.Conv2d(16, 16, 4, stride=4)

    def forward(self, images: Tensor) -> Tensor:
        patches: Tensor = self.second(F.relu(self.norm(self.first(images))))
        return patches.flatten(start_dim=1)


def head_that_says(features: Tensor, clusters: Tensor, count: int) -> Head:
    """A head that predicts these clusters, as if stage 2 had found them."""
    torch.manual_seed(0)
    head = Head(features.shape[1], count, hidden=64)
    optimizer = torch.optim.Adam(head.parameters(), lr=0.02)
    with torch.enable_grad():
        for _ in range(60):
            optimizer.zero_grad()
            F.cross_entropy(head(features), clusters).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return head


def _measure_statistics_(module: Backbone, images: Kinds) -> None:
    """Batch statistics like those of a trained network: batch norm does the same in training and in eval mode."""
    plain = Plain(AUGMENT, size=SIZE, normalization=IMAGENET)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = None  # the mean over all batches seen: here one
    with torch.no_grad():
        module.train()(plain(images.pixels))
    module.eval()


class Start:
    """The result of stage 2."""

    def __init__(self, images: Kinds, said: Tensor, clusters: int) -> None:
        self.images, self.clusters = images, clusters
        self.encoder = TorchEncoder("patches", Patches(), IMAGENET, size=SIZE)
        _measure_statistics_(self.encoder.module, images)
        features = encode_plain(self.encoder, images)
        self.head = head_that_says(features, said, clusters)
        self.features, self.probs = features, F.one_hot(said, clusters).float()
        self.neighbors = reliability_neighbors(len(images), clusters, ReliabilitySettings())

    def labels(self, rule: ReliabilitySettings) -> Labeled:
        near = nearest(self.features, reliability_neighbors(len(self.images), self.clusters, rule)).index
        return labels_to_learn(self.probs, near, rule, seed=0)

    @property
    def stage2(self) -> Stage2:
        near = nearest(self.features, self.neighbors).index
        return Stage2(self.images, self.encoder, self.head, self.features, self.probs, near)

    def refined(self, labeled: Labeled, settings: JointSettings) -> Refined:
        return refine(self.stage2, labeled, settings, Run())


def test_two_hundred_clusters_of_twenty_images_pass_the_checks() -> None:
    images = Kinds(200, 20)
    said = images.kind.clone()
    said[::20] = (said[::20] + 1) % 200  # one image of each kind is in the cluster of the next kind
    start = Start(images, said, 200)
    labeled = start.labels(ReliabilitySettings())
    assert start.neighbors == 10
    assert len(labeled.cluster.bincount(minlength=200).nonzero()) == 200, "no cluster is without a label"
    found = start.refined(labeled, QUICK.model_copy(update={"steps": 20, "labeled": 64, "learning_rate": 0.003}))
    assert found.after.empty == 0
    assert not found.failed_checks
    right = (found.probs.argmax(dim=1) == images.kind).float().mean()
    assert right >= (start.probs.argmax(dim=1) == images.kind).float().mean()


def test_twenty_clusters_on_ten_kinds_pass_the_checks() -> None:
    """The rule of the authors would keep no image: half of the clusters are two images at the edge of a kind."""
    images = Kinds(10, 120)
    said = torch.where(torch.arange(len(images)) % 120 < 2, images.kind + 10, images.kind)
    start = Start(images, said, 20)
    with pytest.warns(NoReliableImagesWarning, match="no image is reliable in group 10"):
        assert len(start.labels(authors_reliability("stl10")).image) == 0
    with pytest.warns(NoReliableImagesWarning):
        labeled = start.labels(ReliabilitySettings())
    assert set(labeled.cluster.tolist()) == set(range(10))
    found = start.refined(labeled, QUICK)
    assert not found.failed_checks, "clusters without labels do not fail a check"
    assert torch.isfinite(found.probs).all()


def test_a_small_clean_cluster_does_not_dissolve() -> None:
    """Seven images of a kind cannot be reliable among clusters of forty, but its best labels are learned."""
    images = Kinds(4, 40)
    keep = torch.cat([torch.arange(120), torch.arange(120, 127)])
    images.kind, images.pixels = images.kind[keep], images.pixels[keep]
    start = Start(images, images.kind, 4)
    rule = ReliabilitySettings(neighbors=10)
    with pytest.warns(NoReliableImagesWarning, match=r"group 3 \(7 images\)"):
        labeled = start.labels(rule)
    assert labeled.image[labeled.cluster == 3].tolist() == list(range(120, 127))
    with pytest.warns(NoReliableImagesWarning):
        papers = start.labels(rule.model_copy(update={"minimum_per_cluster": 0}))
    assert not (papers.cluster == 3).any()
    assert start.refined(labeled, QUICK.model_copy(update={"steps": 30})).after.empty == 0


def test_the_best_ten_images_of_a_large_cluster_without_a_reliable_one_are_learned() -> None:
    labels = torch.tensor([0] * 30 + [1] * 30)
    # Image i of cluster 0 has 0 to 9 of its ten neighbors in its own cluster, never all.
    near = torch.stack([torch.tensor([0] * (place % 10) + [59] * (10 - place % 10)) for place in range(60)])
    near[30:] = torch.arange(30, 40)
    rule = ReliabilitySettings(neighbors=10)
    with pytest.warns(NoReliableImagesWarning, match="group 0"):
        found = labels_to_learn(F.one_hot(labels).float(), near, rule, seed=0)
    chosen = found.image[found.cluster == 0]
    assert sorted((chosen % 10).tolist()) == [6, 7, 7, 7, 8, 8, 8, 9, 9, 9]
    with pytest.warns(NoReliableImagesWarning):
        few = labels_to_learn(F.one_hot(labels).float(), near.clamp(min=5, max=59), rule, seed=0)
    assert (few.cluster == 0).sum() <= 10


class Chained(Backbone):
    """Two layers that can be separated."""

    features = 8

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.second = nn.Conv2d(3, 8, 4, stride=4), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 1)

    def feature_map(self, images: Tensor) -> Tensor:
        maps: Tensor = self.second(F.relu(self.norm(self.first(images))))
        return maps

    def chain(self) -> list[nn.Module]:
        return [nn.Sequential(self.first, self.norm, nn.ReLU()), self.second, Pool()]


def test_random_layers_are_not_frozen() -> None:
    start = Start(Kinds(3, 20), Kinds(3, 20).kind, 3)
    start.encoder = TorchEncoder("chained", Chained(), IMAGENET, size=SIZE)
    start.head = Head(8, 3)
    everyone = Labeled(torch.arange(60), start.images.kind)
    found = start.refined(everyone, QUICK.model_copy(update={"trained": 0.5, "init": "scratch", "steps": 2}))
    before = found.encoder.module.state_dict()
    found = start.refined(everyone, QUICK.model_copy(update={"trained": 0.5, "init": "scratch", "steps": 3}))
    assert not torch.equal(found.encoder.module.state_dict()["first.weight"], before["first.weight"])


class StopError(Exception):
    """Stops the run, as a kill would."""


def small_start(
    *, trained: float, folder: Path | None = None, stop_after: int | None = None
) -> tuple[TorchEncoder, Refined]:
    def stop(task: str, done: int, total: int, figures: object = None) -> None:
        if task == "joint training" and done == stop_after:
            raise StopError

    images = Kinds(3, 20)
    encoder = TorchEncoder("chained", Chained(), IMAGENET, size=SIZE)
    features = encode_plain(encoder, images)
    head = Head(8, 3)
    stage2 = Stage2(images, encoder, head, features, probabilities(head, features), nearest(features, 5).index)
    labeled = Labeled(torch.arange(60), images.kind)
    settings = QUICK.model_copy(update={"trained": trained})
    found = refine(stage2, labeled, settings, Run(folder=folder, progress=stop))
    return encoder, found


def changed(before: nn.Module, after: nn.Module) -> set[str]:
    new = after.state_dict()
    return {name for name, value in before.state_dict().items() if not torch.equal(value, new[name])}


def test_with_frozen_layers_only_the_last_layers_of_the_encoder_change() -> None:
    encoder, found = small_start(trained=0.5)
    assert changed(encoder.module, found.encoder.module) == {"second.weight", "second.bias"}
    assert not changed(encoder.module, Chained()), "the given encoder is not changed"
    # The result is one encoder: its features are those of the result.
    torch.testing.assert_close(encode_plain(found.encoder, Kinds(3, 20)), found.features)
    with torch.no_grad():
        whole = found.encoder.module(torch.zeros(1, 3, SIZE, SIZE))
    torch.testing.assert_close(found.encoder.encode(torch.zeros(1, 3, SIZE, SIZE)), whole, atol=1e-4, rtol=1e-4)


def test_in_the_paper_all_layers_change() -> None:
    encoder, found = small_start(trained=1.0)
    assert {"first.weight", "norm.running_mean", "second.weight"} <= changed(encoder.module, found.encoder.module)


def test_the_checks_use_the_neighbors_before_and_after_joint_training() -> None:
    images = Kinds(10, 12)
    start = Start(images, images.kind, 10)
    before = torch.randn(120, 8, generator=torch.Generator().manual_seed(0))  # random features
    prior, labeled = nearest(before, 5).index, Labeled(torch.arange(120), images.kind)
    found = refine(start.stage2._replace(features=before, neighbors=prior), labeled, QUICK, Run())
    labels = found.probs.argmax(dim=1)
    assert found.after.prior_neighbor_agreement == pytest.approx(consistency_ratio(labels, prior).mean().item())
    assert found.after.neighbor_agreement > found.after.prior_neighbor_agreement + 0.2
    assert found.before.prior_neighbor_agreement == found.before.neighbor_agreement
    # The result has the neighbors in the new features, so that they need not be searched again.
    new = nearest(found.features, 5)
    assert torch.equal(found.neighbors.index, new.index)
    assert torch.equal(found.neighbors.similarity, new.similarity)


def test_the_checks_can_use_fewer_neighbors_than_are_returned() -> None:
    start = Start(Kinds(4, 12), Kinds(4, 12).kind, 4)
    labeled = Labeled(torch.arange(48), start.images.kind)
    few = refine(start.stage2, labeled, QUICK, Run())
    more = start.stage2._replace(neighbors=nearest(start.features, 9).index, checked_neighbors=start.neighbors)
    many = refine(more, labeled, QUICK, Run())
    assert (many.before, many.after) == (few.before, few.after)
    assert many.neighbors.index.shape == (48, 9)


def test_extra_images_are_trained_on_but_not_clustered() -> None:
    """STL-10 has images for stages 1 and 3 that are not clustered."""
    start = Start(Kinds(3, 20), Kinds(3, 20).kind, 3)
    taken: set[int] = set()

    class Watched(Concatenated):
        def take(self, positions: Tensor) -> Tensor:
            taken.update(positions.tolist())
            return super().take(positions)

    stage2 = start.stage2._replace(images=Watched(start.images, Kinds(3, 6)))
    found = refine(stage2, Labeled(torch.arange(60), start.images.kind), QUICK, Run())
    assert taken == set(range(78)), "all images are trained on"
    assert len(found.features) == len(found.probs) == len(found.neighbors.index) == 60
    assert int(found.neighbors.index.max()) < 60
    assert torch.equal(found.features, encode_plain(found.encoder, start.images))


def test_more_features_than_images_are_refused() -> None:
    start = Start(Kinds(3, 20), Kinds(3, 20).kind, 3)
    with pytest.raises(ValueError, match="60 features need as many images, got 57"):
        refine(start.stage2._replace(images=Kinds(3, 19)), start.labels(ReliabilitySettings()), QUICK, Run())


def test_frozen_layers_change_the_speed_but_no_step() -> None:
    """Compared with the whole network, with its first layers in eval mode and not in the optimizer."""
    _, found = small_start(trained=0.5)
    images, whole = Kinds(3, 20), Tail(*Chained().chain())
    whole[0].requires_grad_(False)
    torch.manual_seed(0)
    Chained()  # the same random numbers as above before the head is drawn
    learner = Learner.on_images(ClusteringNetwork(whole, Head(8, 3)), 3, AUGMENT, size=SIZE, normalization=IMAGENET)
    settings = QUICK.model_copy(update={"trained": 0.5})
    slow = train_jointly(learner, images, Labeled(torch.arange(60), images.kind), settings, Run())
    losses = [step.loss for step in found.history]
    assert losses == pytest.approx([step.loss for step in slow.history], abs=1e-4)
    assert losses[-1] < losses[0]


def test_a_stopped_run_with_frozen_layers_resumes_as_if_never_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, whole = small_start(trained=0.5)
    monkeypatch.setattr(Checkpoints, "due", lambda _: True)
    with pytest.raises(StopError):
        small_start(trained=0.5, folder=tmp_path, stop_after=5)
    assert any(tmp_path.iterdir())
    _, resumed = small_start(trained=0.5, folder=tmp_path)
    assert torch.equal(whole.probs, resumed.probs)
    assert whole.history == resumed.history


def test_the_duration_is_estimated_from_a_few_steps() -> None:
    encoder = TorchEncoder("small", network("resnet10", stem="plain", width=4), IMAGENET, size=16)
    short, long = (
        estimated_seconds(encoder, QUICK.model_copy(update={"steps": steps}), clusters=300, images=100)
        for steps in (1, 10_000)
    )
    assert 0 < short < long
    in_minutes = QUICK.model_copy(update={"minutes": 2.0})
    assert estimated_seconds(encoder, in_minutes, clusters=3, images=100) == 120


def test_the_duration_for_an_encoder_that_cannot_be_trained_is_refused() -> None:
    with pytest.raises(UserError, match="none cannot be trained, so it cannot be refined"):
        estimated_seconds(NoEncoder(8), QUICK, clusters=3, images=100)
