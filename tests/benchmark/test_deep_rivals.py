"""Rivals that train a network: they learn, their losses are the published ones, and a stopped training goes on."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from spice.benchmark import mixing
from spice.benchmark.choice import choices
from spice.benchmark.collected import collect
from spice.benchmark.deep.cc import CC, cluster_contrast
from spice.benchmark.deep.idfd import IDFD, decorrelation
from spice.benchmark.deep.iic import IIC, mutual_information
from spice.benchmark.deep.objective import Epoch, Objective, Pictures, Schedule, Seen, Start, train
from spice.benchmark.deep.pica import PICA, partition_uncertainty, uneven_sizes
from spice.benchmark.deep.ruc import RUC, clean_labels, clean_threshold, refined, smoothed
from spice.benchmark.deep.scan import NeighborStep, SelfLabeling, balanced_cross_entropy
from spice.benchmark.methods import METHODS, deep
from spice.benchmark.methods.deep import schedule
from spice.benchmark.rivals.classic import kmeans
from spice.benchmark.tables.catalog import TABLES
from spice.benchmark.workbench import Workbench
from spice.data.images import InMemory
from spice.engine.checkpoints import Checkpoints
from spice.engine.processes import CPU
from spice.engine.run import Run
from spice.evaluate import accuracy
from spice.models.backbone import Backbone
from spice.randomness import generator
from spice.settings import AugmentSettings, Normalization
from spice.stages.joint.train import ClusteringNetwork

GRAY = Normalization(mean=(0.5,), std=(0.5,))
CALM = AugmentSettings(flip=False, rotation=False, blur=False, crop_scale=(0.6, 1.0), operations=1, cutout=0.2)
CLASSES = 3


class Patterns(InMemory):
    """Images of 12 x 12 pixels: lines across, lines down, or squares, at any place and in any light."""

    def __init__(self, count: int = 96) -> None:
        random = torch.Generator().manual_seed(0)
        self.classes = np.arange(count) % CLASSES
        row, column = torch.meshgrid(torch.arange(12), torch.arange(12), indexing="ij")
        kinds = [row // 2 % 2, column // 2 % 2, (row // 2 + column // 2) % 2]
        moves = torch.randint(0, 4, (count, 2), generator=random).tolist()
        made = [kinds[kind].roll(move, (0, 1)) for kind, move in zip(self.classes.tolist(), moves, strict=True)]
        noise = torch.randint(0, 50, (count, 1, 12, 12), generator=random)
        contrast, light = torch.randint(40, 100, (2, count, 1, 1, 1), generator=random)
        super().__init__((contrast * torch.stack(made).unsqueeze(1) + light + noise).byte())

    def features(self) -> Tensor:
        """As a feature model would see them: near to each other if they show the same."""
        noise = torch.randn(len(self), CLASSES, generator=torch.Generator().manual_seed(1))
        return torch.eye(CLASSES)[torch.from_numpy(self.classes)] + 0.1 * noise


class Small(Backbone):
    """Two convolutions and the mean over all places."""

    def __init__(self) -> None:
        super().__init__()
        first, second = (nn.Conv2d(width, 32, side, bias=False) for width, side in ((1, 4), (32, 3)))
        self.layers = nn.Sequential(first, nn.BatchNorm2d(32), nn.ReLU(), second, nn.BatchNorm2d(32), nn.ReLU())
        self.features = 32

    def feature_map(self, images: Tensor) -> Tensor:
        maps: Tensor = self.layers(images)
        return maps


def shown(images: InMemory) -> Pictures:
    return Pictures(images, CALM, 12, GRAY)


def start(images: Patterns, *, seed: int = 0) -> Start:
    torch.manual_seed(0)
    return Start(Small(), CLASSES, images.features(), seed)


def labels(objective: Objective, images: Patterns) -> NDArray[np.int64]:
    outputs = shown(images).outputs(objective, CPU).numpy()
    found: NDArray[np.int64] = outputs.argmax(axis=1)
    return kmeans(outputs, CLASSES, seed=0) if isinstance(objective, IDFD) else found


@pytest.mark.parametrize(
    ("kind", "epochs", "rate", "least"),
    [
        (CC, 8, 1e-2, 0.9),
        (
            IIC,
            48,
            3e-3,
            0.65,
        ),  # with so few images it may stop at a local optimum, where two of the three kinds are one
        (PICA, 24, 1e-2, 0.9),
        (IDFD, 24, 0.3, 0.9),
        (NeighborStep, 12, 3e-3, 0.9),
    ],
)
def test_patterns_are_told_apart_without_a_label(kind: type[Objective], epochs: int, rate: float, least: float) -> None:
    images = Patterns()
    objective = kind.of(start(images))
    assert accuracy(labels(objective, images), images.classes) < least - 0.1
    train(objective, shown(images), kind.published._replace(epochs=epochs, batch=48, learning_rate=rate), Run())
    assert accuracy(labels(objective, images), images.classes) > least


@pytest.mark.parametrize("kind", [IIC, IDFD, NeighborStep])
def test_a_stopped_training_resumes_as_if_never_stopped(
    kind: type[Objective], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Checkpoints, "due", lambda _: True)
    images, short = Patterns(), Schedule(epochs=3, batch=32, learning_rate=1e-2, momentum=kind.published.momentum)

    def stop(task: str, done: int, total: int, figures: object = None) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(kind.of(start(images)), shown(images), short, Run(0, tmp_path, progress=stop))
    seen: list[int] = []
    resumed, whole = kind.of(start(images)), kind.of(start(images))
    train(resumed, shown(images), short, Run(0, tmp_path, progress=lambda task, done, *_: seen.append(done)))
    assert seen[0] == 5  # the step whose checkpoint was not written, and none before it
    train(whole, shown(images), short, Run())
    for ours, theirs in zip(resumed.state_dict().values(), whole.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def cosine(one: Tensor, other: Tensor) -> float:
    return float(one @ other / one.norm() / other.norm())


def entropy(probs: Tensor) -> float:
    return -sum(float(p) * math.log(float(p)) for p in probs)


def test_ccs_loss_of_clusters_is_simclrs_of_columns_minus_the_entropies_of_sizes() -> None:
    first, second = drawn(5, 3).softmax(dim=1), drawn(5, 3, seed=1).softmax(dim=1)
    columns = [*first.T, *second.T]
    expected = 0.0
    for i, column in enumerate(columns):
        others = [math.exp(cosine(column, other) / 0.7) for j, other in enumerate(columns) if j != i]
        expected -= math.log(math.exp(cosine(column, columns[(i + 3) % 6]) / 0.7) / sum(others)) / 6
    expected -= entropy(first.mean(dim=0)) + entropy(second.mean(dim=0))
    assert cluster_contrast(first, second, temperature=0.7).item() == pytest.approx(expected)


def test_iics_information_is_that_of_the_symmetrized_table() -> None:
    first, second = drawn(2, 3, 7).softmax(dim=1), drawn(2, 3, 7, seed=1).softmax(dim=1)
    found = mutual_information(first, second)
    for head in range(2):
        table = [[float(first[head, k] @ second[head, m]) / 7 for m in range(3)] for k in range(3)]
        even = [[(table[k][m] + table[m][k]) / 2 for m in range(3)] for k in range(3)]
        alone = [sum(row) for row in even]
        expected = sum(even[k][m] * math.log(even[k][m] / alone[k] / alone[m]) for k in range(3) for m in range(3))
        assert found[head].item() == pytest.approx(expected)
    certain = torch.eye(3).repeat(1, 4).unsqueeze(0)  # three clusters of equal size, known from either view
    assert mutual_information(certain, certain).item() == pytest.approx(math.log(3), rel=1e-5)
    assert torch.autograd.gradcheck(mutual_information, (first.requires_grad_(), second.requires_grad_()))


def test_iics_views_are_of_one_kind_since_telling_two_apart_is_worth_ln_2() -> None:
    cluster_0, cluster_1 = (torch.eye(3)[kind].expand(1, 5, 3).transpose(1, 2) for kind in (0, 1))  # (1, K, B)
    assert mutual_information(cluster_0, cluster_1).item() == pytest.approx(math.log(2))  # of images all alike
    assert len(set(IIC.views)) == 1


def test_iic_learns_its_two_kinds_of_heads_in_turn_and_the_loss_of_one_kind_chooses() -> None:
    images = Patterns()
    objective = IIC(start(images))
    for epoch, trained, still in ((0, objective.heads, objective.over), (1, objective.over, objective.heads)):
        objective.zero_grad()
        loss = objective.loss(
            Seen(torch.arange(8), [torch.randn(8, 1, 12, 12)] * 2, [], Epoch(epoch, 2), torch.Generator())
        )
        loss.backward()  # type: ignore[no-untyped-call]
        assert trained.weight.grad is not None
        assert still.weight.grad is None
    assert (objective.losses < 0).all()
    objective.losses.copy_(torch.tensor([3.0, 1.0, 2.0, 4.0, 5.0]))
    views = torch.randn(4, 1, 12, 12)
    assert torch.equal(objective(views), objective.heads(objective.backbone(views))[1].T)


def test_picas_index_compares_columns_of_two_views_and_sizes_count_twice() -> None:
    first, second = drawn(5, 3).softmax(dim=1), drawn(5, 3, seed=1).softmax(dim=1)
    expected = 0.0
    for k in range(3):
        others = [math.exp(cosine(first[:, k], second[:, m])) for m in range(3)]
        expected -= math.log(others[k] / sum(others)) / 3
    assert partition_uncertainty(first, second).item() == pytest.approx(expected)
    assert uneven_sizes(first).item() == pytest.approx(math.log(3) - entropy(first.mean(dim=0)))
    objective = PICA(start(Patterns())).eval()
    views = [drawn(4, 1, 12, 12, seed=seed).float() for seed in range(4)]
    for epoch, head in ((0, objective.over), (1, objective.head)):
        probs: list[Tensor] = [head(objective.backbone(view)).softmax(dim=1).detach() for view in views]
        one = probs[0]
        expected = float(partition_uncertainty(torch.cat([one] * 3), torch.cat(probs[1:])) + 2 * uneven_sizes(one))
        found = objective.loss(Seen(torch.arange(4), views, [], Epoch(epoch, 2), torch.Generator()))
        assert float(found.detach()) == pytest.approx(expected, rel=1e-4)


def test_idfd_tells_each_image_from_the_memory_of_all_and_columns_from_each_other() -> None:
    features = torch.nn.functional.normalize(drawn(4, 6), dim=1)
    expected = 0.0
    for k in range(6):
        others = [math.exp(cosine(features[:, k], features[:, m]) / 2) for m in range(6)]
        expected -= math.log(others[k] / sum(others)) / 6
    assert decorrelation(features, temperature=2.0).item() == pytest.approx(expected)

    objective = IDFD(start(Patterns())).eval()
    before, places = objective.memory.clone(), torch.tensor([5, 90])
    view = torch.randn(2, 1, 12, 12)
    seen = Seen(places, [view], [], Epoch(0, 1), torch.Generator())
    own = objective(view).detach()
    alike = -sum(float((own[row] @ before.T).log_softmax(dim=0)[place]) for row, place in enumerate((5, 90))) / 2
    found = float(objective.loss(seen).detach())
    assert found == pytest.approx(alike + float(decorrelation(own, temperature=2.0)), rel=1e-5)
    objective.update_(seen)
    halfway = torch.nn.functional.normalize(before[places] + own, dim=1)
    assert torch.allclose(objective.memory[places], halfway)
    assert torch.equal(objective.memory[6:90], before[6:90])


def test_scan_shows_an_image_and_a_neighbor_which_should_agree() -> None:
    images = Patterns()
    objective = NeighborStep(start(images)).eval()
    batch = torch.arange(96)
    same, beside = objective.shown(batch, torch.Generator().manual_seed(0))
    assert torch.equal(same, batch)
    assert not (beside == batch).any()
    assert (images.classes[beside.numpy()] == images.classes).all()
    views = [torch.randn(5, 1, 12, 12) for _ in range(2)]
    one, other = (objective(view).softmax(dim=1) for view in views)
    agreement = sum(math.log(float(one[row] @ other[row])) for row in range(5)) / 5
    found = objective.loss(Seen(batch[:5], views, [], Epoch(0, 1), torch.Generator()))
    assert float(found.detach()) == pytest.approx(-agreement - 5 * entropy(one.mean(dim=0)), rel=1e-4)


def test_every_class_has_the_same_weight_however_many_images_it_has() -> None:
    logits, given = torch.randn(4, 3), torch.tensor([0, 0, 0, 2])
    each = [-float(row.log_softmax(dim=0)[label]) for row, label in zip(logits, given.tolist(), strict=True)]
    assert float(balanced_cross_entropy(logits, given)) == pytest.approx((sum(each[:3]) / 3 + each[3]) / 2)


def test_self_labeling_raises_confident_predictions_and_ignores_the_others() -> None:
    images = Patterns()
    inputs = images.pixels.float() / 127.5 - 1

    def learned(threshold: float) -> tuple[Tensor, Tensor]:
        torch.manual_seed(1)
        network = nn.Sequential(nn.Flatten(), nn.Linear(144, CLASSES))
        before = network(inputs).softmax(dim=1).detach()
        few = Schedule(epochs=20, batch=48, learning_rate=3e-2, weight_decay=1e-4)
        train(SelfLabeling(network, threshold=threshold), shown(images), few, Run())
        return before, network(inputs).softmax(dim=1).detach()

    before, after = learned(0.34)
    assert after.amax(dim=1).mean() > before.amax(dim=1).mean() + 0.1
    before, after = learned(1.0)  # nothing is surer than certain
    assert torch.equal(before, after)


def test_shorter_trainings_have_a_higher_rate_but_for_self_labeling() -> None:
    short = choices(TABLES["whole"], "cpu")[0]
    assert schedule(CC, short) == CC.published._replace(epochs=60, batch=128, learning_rate=10 * 3e-4)
    assert schedule(NeighborStep, short).learning_rate == pytest.approx(10 * 1e-4)
    assert schedule(SelfLabeling, short) == SelfLabeling.published._replace(epochs=10, batch=128)
    full = choices(TABLES["whole"], "full")[0]
    assert all(schedule(kind, full) == kind.published for kind in (CC, IIC, PICA, IDFD, NeighborStep, SelfLabeling))


def test_a_training_that_two_methods_share_is_done_once_and_charged_to_both(tmp_path: Path) -> None:
    choice = choices(TABLES["whole"], "smoke")[0]
    images = collect(choice, "whole", tmp_path / "images")
    charged = []
    for method in ("SCAN*", "SCAN"):
        tasks: list[str] = []
        run = Run(folder=tmp_path / "stages", progress=lambda task, *_, tasks=tasks: tasks.append(task))
        bench = Workbench(images, choice, run)
        METHODS[method].fit(bench)
        charged.append({name: seconds for name, seconds in bench.charged.items() if name.startswith("neighborstep")})
        assert ("NeighborStep" in tasks) == (method == "SCAN*")
        assert ("SelfLabeling" in tasks) == (method == "SCAN")
    (first,), (second,) = (found.values() for found in charged)
    assert charged[0].keys() == charged[1].keys()
    assert second >= first > 0


def test_weights_that_a_rival_draws_by_itself_depend_on_the_seed_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deep, "learned", lambda objective, _: objective)  # as drawn, before training
    choice = choices(TABLES["whole"], "smoke")[0]
    images = collect(choice, "whole", tmp_path / "images")
    for kind, drawn_weights in ((IIC, "heads.weight"), (IIC, "over.weight"), (IDFD, "memory")):
        found = [
            deep.from_scratch(kind, Workbench(images, choice, Run(seed, folder=tmp_path / "stages"))).state_dict()
            for seed in (0, 0, 1)
        ]
        first, again, other = (state[drawn_weights] for state in found)
        assert torch.equal(first, again)
        assert not torch.equal(first, other)
    torch.manual_seed(0)
    backbone = Small()
    expected = torch.randn(96, 128, generator=generator(0, "idfd"))  # with seed 0
    assert torch.equal(
        IDFD(Start(backbone, CLASSES, torch.empty(96, 0), 0)).memory, torch.nn.functional.normalize(expected)
    )


def half_right(images: Patterns) -> tuple[Backbone, Tensor, Tensor]:
    """A backbone that has learned labels of which every fifth is wrong, these, and those that are taken to be clean."""
    torch.manual_seed(0)
    right = torch.from_numpy(images.classes)
    wrong = torch.arange(len(images)) % 5 == 0
    clean = ~wrong & (torch.arange(len(images)) < 60)
    given = torch.where(wrong, (right + 1) % CLASSES, right)
    backbone = Small()
    network = ClusteringNetwork(backbone, nn.Linear(32, CLASSES))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for _ in range(8):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(images.pixels.float() / 127.5 - 1), given).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return backbone, given, clean


def test_ruc_corrects_a_result_from_its_clean_labels() -> None:
    images = Patterns()
    backbone, given, clean = half_right(images)
    objective = RUC(backbone, CLASSES, given.clone(), clean.clone())
    train(objective, shown(images), RUC.published._replace(epochs=4, batch=32, learning_rate=0.03), Run())
    assert accuracy(given.numpy(), images.classes) < 0.85
    assert accuracy(labels(objective, images), images.classes) > 0.95
    assert torch.equal(objective.labels[clean], given[clean])
    nothing = RUC(backbone, CLASSES, given, torch.zeros_like(clean))
    before = [value.clone() for value in nothing.state_dict().values()]
    train(nothing, shown(images), RUC.published._replace(epochs=1, batch=32), Run())
    assert all(torch.equal(*pair) for pair in zip(before, nothing.state_dict().values(), strict=True))


def test_rucs_loss_without_mixing_is_the_sum_of_three_for_each_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixing, "shares", lambda count, random, *, alpha: torch.ones(count))
    backbone, given, clean = half_right(Patterns())
    objective = RUC(backbone, CLASSES, given, clean).eval()
    with torch.no_grad():
        for parameter in objective.networks[1].parameters():
            parameter.mul_(0.5)
    places, views = torch.tensor([1, 2, 3]), [drawn(3, 1, 12, 12, seed=seed).float() for seed in range(4)]
    found = objective.loss(Seen(places, views, [places] * 4, Epoch(1, 2), torch.Generator()))
    says = [[net(view).detach().softmax(dim=1) for view in views] for net in objective.networks]  # [network][view]
    label = torch.eye(CLASSES)[given[places]]
    guess = sum(says[net][view] for net in (0, 1) for view in (2, 3)) / 4
    guess = guess**2 / (guess**2).sum(dim=1, keepdim=True)
    expected = 0.0
    for net in (0, 1):
        trust = says[1 - net][0].max(dim=1, keepdim=True).values
        better = (1 - trust) * label + trust * says[1 - net][0]
        better = better**2 / (better**2).sum(dim=1, keepdim=True)
        soft = torch.where(label == 1, 0.5, 0.25)
        expected -= float((better * says[net][0].log()).sum(dim=1).mean())
        expected += 12.5 * sum(float((says[net][view] - guess).square().mean()) for view in (2, 3)) / 2
        expected -= float((soft * says[net][1].log()).sum(dim=1).mean())
    assert float(found.detach()) == pytest.approx(expected, rel=1e-4)
    assert torch.allclose(objective(views[0]), (says[0][0] + says[1][0]) / 2)


def test_ruc_shows_clean_images_and_others_and_lets_the_confident_join() -> None:
    backbone, given, clean = half_right(Patterns())
    objective = RUC(backbone, CLASSES, given.clone(), clean.clone())
    weak, strong, first, second = objective.shown(torch.arange(50), torch.Generator().manual_seed(0))
    assert clean[weak].all()
    assert torch.equal(weak, strong)
    assert not clean[first].any()
    assert torch.equal(first, second)
    others = (~clean).nonzero().squeeze(dim=1)
    probs = [torch.full((96, CLASSES), 1 / 3), torch.full((96, CLASSES), 1 / 3)]
    probs[0][others[0]] = torch.tensor([0.02, 0.95, 0.03])
    probs[1][others[0]] = torch.tensor([0.97, 0.02, 0.01])  # surer
    probs[1][others[1]] = torch.tensor([0.05, 0.9, 0.05])  # not above 0.9
    objective.add_clean_(probs, threshold=0.9)
    assert objective.labels[others[0]] == 0
    assert (objective.clean ^ clean).nonzero().tolist() == [[int(others[0])]]


def test_between_epochs_ruc_lets_images_join_of_which_it_is_sure() -> None:
    images = Patterns()
    backbone, given, clean = half_right(images)
    objective = RUC(backbone, CLASSES, given.clone(), clean.clone())
    assert objective.begin_(Epoch(0, 4), shown(images), CPU)
    assert torch.equal(objective.clean, clean)
    with torch.no_grad():
        for sure in objective.networks:
            assert isinstance(sure, ClusteringNetwork)
            for weights in sure.head.parameters():
                weights.mul_(1000)
    assert objective.begin_(Epoch(1, 4), shown(images), CPU)
    assert int(objective.clean.sum()) > int(clean.sum())
    assert torch.equal(objective.labels[clean], given[clean])


def test_ruc_asks_for_more_confidence_as_it_learns() -> None:
    assert [clean_threshold(Epoch(number, 200)) for number in (0, 39, 40, 199)] == pytest.approx([0.9, 0.9, 0.92, 0.98])


def test_a_learning_rate_stays_falls_in_steps_or_along_a_cosine() -> None:
    assert [Schedule(9, 8, 0.5).rate(epoch) for epoch in (0, 8)] == [0.5, 0.5]
    falling = IDFD.published
    rates = [falling.rate(epoch) for epoch in (599, 600, 949, 950, 1300, 1650, 1999)]
    assert rates == pytest.approx([0.03, 0.003, 0.003, 3e-4, 3e-5, 3e-6, 3e-6])
    assert [RUC.published.rate(epoch) for epoch in (0, 100, 200)] == pytest.approx([0.01, 0.005, 0.0])


def test_training_uses_the_learning_rate_of_each_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[float] = []
    monkeypatch.setattr("spice.benchmark.deep.objective.set_learning_rate_", lambda _, rate: used.append(rate))
    images = Patterns()
    train(CC(start(images)), shown(images), Schedule(2, 48, 0.1, drops=(0.5,)), Run())
    assert used == pytest.approx([0.1, 0.1, 0.01, 0.01])  # two steps in each epoch


def test_clean_labels_are_confident_and_those_of_most_neighbors() -> None:
    features = torch.tensor([[1.0, 0.0], [1.0, 0.1], [1.0, 0.2], [0.0, 1.0]])
    probs = torch.tensor([[0.999, 0.001], [0.98, 0.02], [0.001, 0.999], [0.002, 0.998]])
    assert clean_labels(probs, features, confident=0.99).tolist() == [False, False, False, False]
    probs[2] = torch.tensor([0.995, 0.005])
    assert clean_labels(probs, features, confident=0.99).tolist() == [True, False, True, False]
    assert clean_labels(probs, features, confident=0.9).tolist() == [True, True, True, False]
    assert smoothed(torch.tensor([[1.0, 0.0, 0.0]]))[0].tolist() == [0.5, 0.25, 0.25]
    better = refined(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.25, 0.75]]))
    assert better[0].tolist() == pytest.approx([0.4375, 0.5625])
