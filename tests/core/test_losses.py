"""The losses against loops, closed forms and autograd (III-A to III-C, Appendix A)."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from spice.core import (
    IGNORE,
    cross_entropy,
    double_softmax_cross_entropy,
    double_softmax_ratio,
    info_nce,
    joint_loss,
    negative_entropy,
    temperature_cross_entropy,
)


def temperature_point_two(logits: Tensor, labels: Tensor) -> Tensor:
    return temperature_cross_entropy(logits, labels, temperature=0.2)


STAGE_2_LOSSES = [cross_entropy, double_softmax_cross_entropy, temperature_point_two]
Loss = Callable[[Tensor, Tensor], Tensor]


def random(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_labels(seed: int, *shape: int, clusters: int, lowest: int = 0) -> Tensor:
    return torch.randint(lowest, clusters, shape, generator=torch.Generator().manual_seed(seed))


def softmax(values: list[float]) -> list[float]:
    total = sum(math.exp(value) for value in values)
    return [math.exp(value) / total for value in values]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


# --- stage 2 ---


def loop_loss(logits: Tensor, labels: Tensor, to_probs: Callable[[list[float]], list[float]]) -> float:
    pairs = zip(logits.tolist(), labels.tolist(), strict=True)
    return mean([-math.log(to_probs(row)[label]) for row, label in pairs if label != IGNORE])


@pytest.mark.parametrize(
    ("loss", "to_probs"),
    [
        (cross_entropy, softmax),
        (double_softmax_cross_entropy, lambda row: softmax(softmax(row))),
        (temperature_point_two, lambda row: softmax([value / 0.2 for value in row])),
    ],
)
def test_each_loss_equals_its_equation_in_loops_and_skips_ignored_labels(
    loss: Loss, to_probs: Callable[[list[float]], list[float]]
) -> None:
    logits = random(0, 40, 6)
    for lowest in (0, IGNORE):
        labels = random_labels(1, 40, clusters=6, lowest=lowest)
        assert (labels == IGNORE).any() == (lowest == IGNORE)
        assert loss(logits, labels).item() == pytest.approx(loop_loss(logits, labels, to_probs), abs=1e-12)


def test_labels_of_any_integer_type_give_the_same_loss() -> None:
    logits, labels = random(0, 4, 300), torch.tensor([255, 0, 7, 128])
    for dtype in (torch.uint8, torch.int32):
        assert cross_entropy(logits, labels.to(dtype)) == cross_entropy(logits, labels)


@pytest.mark.parametrize(("clusters", "published"), [(10, 1.4612), (15, 1.8165), (20, 2.0782), (200, 4.3069)])
def test_a_perfect_head_loses_ln_of_e_plus_k_minus_1_minus_1_and_a_uniform_one_ln_k(
    clusters: int, published: float
) -> None:
    labels = torch.arange(clusters)
    perfect = double_softmax_cross_entropy(1000 * torch.eye(clusters, dtype=torch.float64), labels).item()
    assert perfect == pytest.approx(math.log(math.e + clusters - 1) - 1, abs=1e-12)
    assert perfect == pytest.approx(published, abs=5e-5)
    uniform = torch.zeros(clusters, clusters, dtype=torch.float64)
    for loss in STAGE_2_LOSSES:
        assert loss(uniform, labels).item() == pytest.approx(math.log(clusters), abs=1e-12)


def test_a_pair_of_clusters_that_share_a_prototype_costs_about_0_093_at_ten_clusters() -> None:
    logits = torch.eye(10, dtype=torch.float64) * 1000
    shared = logits.clone()
    shared[[0, 1], 0] = shared[[0, 1], 1] = 1000.0  # both clusters label the same images, half for each
    labels = torch.arange(10)
    cost = double_softmax_cross_entropy(shared, labels) - double_softmax_cross_entropy(logits, labels)
    assert cost.item() == pytest.approx(0.093, abs=1.5e-3)


@pytest.mark.parametrize("loss", STAGE_2_LOSSES)
def test_all_heads_at_once_lose_what_each_loses_alone(loss: Loss) -> None:
    logits, labels = random(2, 4, 25, 5), random_labels(3, 4, 25, clusters=5, lowest=IGNORE)
    batched = loss(logits, labels)
    assert batched.shape == (4,)
    torch.testing.assert_close(batched, torch.stack([loss(logits[head], labels[head]) for head in range(4)]))


@pytest.mark.parametrize("loss", STAGE_2_LOSSES)
def test_a_head_without_labels_loses_nothing_while_others_learn(loss: Loss) -> None:
    logits = random(4, 2, 6, 3).requires_grad_()
    labels = random_labels(5, 2, 6, clusters=3)
    labels[0] = IGNORE
    losses = loss(logits, labels)
    assert losses[0].item() == 0
    torch.testing.assert_close(losses[1], loss(logits[1], labels[1]))
    losses.sum().backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert not logits.grad[0].any()
    assert logits.grad[1].any()


@pytest.mark.parametrize("loss", STAGE_2_LOSSES)
def test_labels_that_are_all_ignored_are_refused_in_words(loss: Loss) -> None:
    with pytest.raises(ValueError, match="nothing to learn from: none of 12 images has a label"):
        loss(random(0, 2, 6, 3), torch.full((2, 6), IGNORE))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), clusters=st.integers(2, 8))
def test_losses_do_not_depend_on_the_names_of_clusters_nor_on_the_order_of_images(seed: int, clusters: int) -> None:
    logits, labels = random(seed, 12, clusters), random_labels(seed, 12, clusters=clusters)
    generator = torch.Generator().manual_seed(seed)
    order, names = torch.randperm(12, generator=generator), torch.randperm(clusters, generator=generator)
    for loss in STAGE_2_LOSSES:
        expected = loss(logits, labels)
        torch.testing.assert_close(loss(logits[order], labels[order]), expected)
        torch.testing.assert_close(loss(logits[:, names], names.argsort()[labels]), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_losses_keep_their_inputs_dtype(dtype: torch.dtype) -> None:
    logits, labels = random(0, 8, 3).to(dtype), random_labels(0, 8, clusters=3)
    for loss in STAGE_2_LOSSES:
        value = loss(logits, labels)
        assert value.dtype == dtype
        assert value.item() == pytest.approx(loss(logits.double(), labels).item(), rel=0.03)
    assert info_nce(logits, logits, logits).dtype == dtype
    assert joint_loss(logits, labels, logits, labels).dtype == dtype
    assert negative_entropy(logits.softmax(dim=1)).dtype == dtype
    assert double_softmax_ratio(logits[0], 1).dtype == dtype


def test_labels_out_of_range_are_refused_in_words() -> None:
    logits = random(0, 4, 3)
    for bad in (3, -2):
        labels = torch.tensor([0, 1, 2, bad])
        with pytest.raises(ValueError, match=rf"labels must lie in -1..2, got {min(bad, 0)}..{max(bad, 2)}"):
            cross_entropy(logits, labels)
    for dtype in (torch.float32, torch.bool):
        with pytest.raises(ValueError, match=rf"labels must be whole numbers, got {dtype}"):
            cross_entropy(logits, torch.ones(4, dtype=dtype))


@pytest.mark.parametrize("shape", [(5, 3), (2, 4, 3)])
def test_logits_and_labels_that_do_not_match_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises((ValueError, RuntimeError), match=r"size|shape"):
        cross_entropy(random(0, *shape), torch.tensor([0, 1, 2, 0]))


# --- Appendix A ---


def gradient(loss: Loss, logits: Tensor, label: int) -> Tensor:
    logits = logits.clone().requires_grad_()
    (result,) = torch.autograd.grad(loss(logits.unsqueeze(dim=0), torch.tensor([label])), logits)
    return result


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), clusters=st.integers(2, 12))
def test_the_double_softmax_gradient_is_the_appendixs_sum_over_j(seed: int, clusters: int) -> None:
    logits, label = random(seed, clusters) * 2, seed % clusters
    first = softmax(logits.tolist())
    second = softmax(first)
    expected = [
        sum((second[j] - (j == label)) * first[j] * ((j == k) - first[k]) for j in range(clusters))
        for k in range(clusters)
    ]
    actual = gradient(double_softmax_cross_entropy, logits, label)
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), clusters=st.integers(2, 12))
def test_the_ratio_is_that_of_the_two_gradients(seed: int, clusters: int) -> None:
    logits, label = random(seed, clusters) * 2, seed % clusters
    expected = gradient(double_softmax_cross_entropy, logits, label) / gradient(cross_entropy, logits, label)
    torch.testing.assert_close(double_softmax_ratio(logits, label), expected, rtol=1e-6, atol=1e-9)


def test_the_ratio_holds_for_a_sure_prediction_and_can_be_negative() -> None:
    # p_c = 1: r_c = 1 - p'_c + p'_j over the others, which all have p'_j = 1 / (e + K - 1)
    sure = double_softmax_ratio(torch.tensor([1000.0, 0.0, 0.0, 0.0], dtype=torch.float64), 0)
    assert sure[0].item() == pytest.approx(1 - (math.e - 1) / (math.e + 3), abs=1e-12)
    assert sure.isfinite().all()
    assert (double_softmax_ratio(torch.tensor([-9.0, 3.0, 0.0]), 0) < 0).any()


def test_the_figure_of_the_appendix_has_its_largest_ratio_at_the_false_high_probability() -> None:
    logits = torch.tensor([0.1, 0.4, 0.6, 0.2, 0.5, 2.5, 0.3, 0.0], dtype=torch.float64)  # K = 8, c = 2, false high: 5
    ratio = double_softmax_ratio(logits, 2)
    others = [k for k in range(8) if k != 2]
    assert max(others, key=lambda k: ratio[k].item()) == 5
    assert ratio[others].argsort().tolist() == logits[others].argsort().tolist()  # larger p_k, larger r_k
    assert ratio.max() < 1


def test_a_ratio_without_its_label_is_refused_in_words() -> None:
    for label in (-1, 3):
        with pytest.raises(ValueError, match=rf"label in 0..K-1, got \(3,\) and {label}"):
            double_softmax_ratio(torch.zeros(3), label)
    for shape, words in (((2, 3), r"\(2, 3\)"), ((1,), r"\(1,\)")):
        with pytest.raises(ValueError, match=rf"logits must be \(K,\), K > 1, .* got {words} and 0"):
            double_softmax_ratio(torch.zeros(shape), 0)


# --- entropy ---


def test_negative_entropy_is_the_sum_of_mean_p_ln_mean_p() -> None:
    probs = random(6, 3, 20, 5).softmax(dim=2)
    expected = []
    for head in probs.tolist():
        means = [mean(list(column)) for column in zip(*head, strict=True)]
        expected.append(sum(m * math.log(m) for m in means))
    torch.testing.assert_close(negative_entropy(probs), torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(negative_entropy(probs[1]), torch.tensor(expected[1], dtype=torch.float64))


def test_negative_entropy_is_least_when_clusters_are_equally_full_and_most_when_one_holds_all() -> None:
    one_each = torch.eye(4, dtype=torch.float64)
    assert negative_entropy(one_each).item() == pytest.approx(-math.log(4), abs=1e-12)
    assert negative_entropy(one_each[:1].repeat(4, 1)).item() == 0


@pytest.mark.filterwarnings("error")
def test_an_empty_cluster_leaves_the_entropys_gradient_finite() -> None:
    logits = torch.tensor([[1000.0, 0.0, -500.0]], requires_grad=True)
    probs = logits.softmax(dim=1)
    assert probs[0, 2] == 0
    negative_entropy(probs).backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_the_entropys_gradient_reaches_the_clusters_it_must_fill() -> None:
    probs = torch.tensor([[0.7, 0.2, 0.1]], dtype=torch.float64, requires_grad=True)
    negative_entropy(probs).backward()  # type: ignore[no-untyped-call]
    assert probs.grad is not None
    torch.testing.assert_close(probs.grad, probs.detach().log() + 1)


def test_the_entropy_of_logits_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="are these logits"):
        negative_entropy(random(0, 5, 3) - 5)


# --- stage 1 ---


@pytest.mark.parametrize("temperature", [0.2, 1.0])
def test_info_nce_equals_its_equation_in_loops(temperature: float) -> None:
    query, key, queue = (
        torch.nn.functional.normalize(random(seed, n, 8), dim=1) for seed, n in ((0, 5), (1, 5), (2, 7))
    )

    def score(a: list[float], b: list[float]) -> float:
        return math.exp(sum(x * y for x, y in zip(a, b, strict=True)) / temperature)

    expected = mean(
        [
            -math.log(score(z, plus) / (sum(score(z, minus) for minus in queue.tolist()) + score(z, plus)))
            for z, plus in zip(query.tolist(), key.tolist(), strict=True)
        ]
    )
    assert info_nce(query, key, queue, temperature=temperature).item() == pytest.approx(expected, abs=1e-12)
    if temperature == 0.2:
        assert info_nce(query, key, queue).item() == pytest.approx(expected, abs=1e-12)  # the paper's default


def test_info_nce_of_a_query_that_cannot_tell_its_key_is_ln_of_q_plus_1() -> None:
    same = torch.ones(2, 4, dtype=torch.float64)
    assert info_nce(same, same, same[:1].repeat(9, 1)).item() == pytest.approx(math.log(10), abs=1e-12)


def test_info_nce_refuses_what_does_not_match_in_words() -> None:
    query, queue = random(0, 4, 3), random(1, 6, 3)
    for bad_key, bad_queue in ((query[1:], queue), (query[:1], queue), (query, queue[:0])):
        with pytest.raises(ValueError, match=r"need keys of shape \(4, 3\) and a queue, got"):
            info_nce(query, bad_key, bad_queue)


# --- stage 3 ---


def test_joint_loss_divides_its_second_term_by_all_unlabeled_images() -> None:
    labeled, unlabeled = random(0, 4, 3), random(1, 10, 3)
    labels, consistency = random_labels(2, 4, clusters=3), torch.tensor([0, -1, -1, 2, -1, -1, 1, -1, -1, -1])
    first = [-math.log(softmax(row)[y]) for row, y in zip(labeled.tolist(), labels.tolist(), strict=True)]
    second = [
        -math.log(softmax(row)[y]) for row, y in zip(unlabeled.tolist(), consistency.tolist(), strict=True) if y >= 0
    ]
    expected = sum(first) / 4 + sum(second) / 10  # not / 3
    assert joint_loss(labeled, labels, unlabeled, consistency).item() == pytest.approx(expected, abs=1e-12)


def test_joint_loss_without_a_sure_prediction_is_its_first_term() -> None:
    labeled, labels = random(0, 4, 3), random_labels(2, 4, clusters=3)
    none_sure = torch.full((6,), IGNORE)
    torch.testing.assert_close(joint_loss(labeled, labels, random(1, 6, 3), none_sure), cross_entropy(labeled, labels))


def test_joint_loss_refuses_reliable_labels_that_are_ignored_in_words() -> None:
    logits, labels = random(0, 4, 3), torch.tensor([0, 1, IGNORE, 2])
    with pytest.raises(ValueError, match=r"labels must lie in 0..2, got -1..2"):
        joint_loss(logits, labels, logits, labels)
